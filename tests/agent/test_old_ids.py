"""A session that goes on under another id is the same one for whoever knows it by the old one."""

from pathlib import Path

import anyio
import pytest

from fallback_plugin.agent.http.guard import Rules
from fallback_plugin.model_ref import ModelRef
from tests.agent.whole_host import complete, new_session, prompt, running_host, served, settings_for
from tests.loopback.provider import ScriptedProvider
from tests.loopback.reply import hang_before_headers, stream

pytestmark = pytest.mark.anyio


async def test_a_stop_under_the_old_id_reaches_what_runs_under_the_new_one(
    provider: ScriptedProvider, tmp_path: Path
) -> None:
    provider.script("first", stream("Yes."))
    provider.script("second", hang_before_headers())
    async with running_host(tmp_path, settings_for(provider)) as host:
        old = await new_session(host)
        await complete(host, old)
        new = (await host.summarize(old, None)).session_id
        active = await host.dispatcher.accept(old, prompt(model=ModelRef("fake", "second")))
        waiting = await host.dispatcher.accept(old, prompt())
        assert active.run.session_id == new
        await anyio.to_thread.run_sync(provider.wait_for, lambda: bool(provider.requests("second")))
        assert host.dispatcher.status(old) == host.dispatcher.status(new)

        hit = await host.stop_session(old)

        assert (hit.active is not None and hit.active.id) == active.run.id
        assert [run.id for run in hit.dropped] == [waiting.run.id]
        assert not host.dispatcher.status(new).is_busy


async def test_H9_a_deletion_under_an_old_id_leaves_the_session_that_goes_on(
    provider: ScriptedProvider, tmp_path: Path
) -> None:
    provider.script("first", stream("Yes."))
    provider.script("second", hang_before_headers())
    async with running_host(tmp_path, settings_for(provider)) as host, served(host, Rules()) as http:
        ids = [await new_session(host)]
        for _ in range(3):
            await complete(host, ids[-1])
            ids.append((await host.summarize(ids[-1], None)).session_id)
        children = [(await host.sessions.create("/", parent_id=each)).id for each in ids]
        active = await host.dispatcher.accept(ids[-1], prompt(model=ModelRef("fake", "second")))
        await anyio.to_thread.run_sync(provider.wait_for, lambda: bool(provider.requests("second")))

        assert (await http.delete(f"/session/{ids[1]}")).json() is True

        status = [(await http.get(f"/session/{each}")).status_code for each in ids]
        assert status == [404, 404, 200, 200]
        assert "continues" not in (await http.get(f"/session/{ids[2]}")).json()
        assert (await host.run_of(active.run.id)).state == "active"
        assert (await http.delete(f"/session/{ids[1]}")).status_code == 404
        kept = {child["id"] for child in (await http.get(f"/session/{ids[-1]}/children")).json()}
        assert kept == {children[0], children[1], children[3]}
        assert (await host.stop_session(ids[2])).active is not None
        assert (await complete(host, ids[2])).outcome == "completed"


@pytest.mark.parametrize("deleted", [0, 1])
async def test_H9_a_deletion_under_the_present_id_takes_all_of_the_session(
    provider: ScriptedProvider, tmp_path: Path, deleted: int
) -> None:
    provider.script("first", stream("Yes."))
    async with running_host(tmp_path, settings_for(provider)) as host, served(host, Rules()) as http:
        ids = [await new_session(host)]
        for _ in range(2):
            await complete(host, ids[-1])
            ids.append((await host.summarize(ids[-1], None)).session_id)
        if deleted:  # what was deleted before is not missed
            await host.delete_session(ids[0])

        await host.delete_session(ids[-1])

        assert [(await http.get(f"/session/{each}")).status_code for each in ids] == [404, 404, 404]
        assert (await http.get("/session")).json() == []


@pytest.mark.parametrize("through", [0, 1, 2])
async def test_H9_a_compacted_session_is_listed_once_and_renamed_under_all_its_ids(
    provider: ScriptedProvider, tmp_path: Path, through: int
) -> None:
    provider.script("first", stream("Yes."))
    async with running_host(tmp_path, settings_for(provider)) as host, served(host, Rules()) as http:
        ids = [await new_session(host)]
        for _ in range(2):
            await complete(host, ids[-1])
            ids.append((await host.summarize(ids[-1], None)).session_id)

        renamed = (await http.patch(f"/session/{ids[through]}", json={"title": "Mine"})).json()

        assert (renamed["id"], renamed["title"]) == (ids[through], "Mine")
        shown = [(await http.get(f"/session/{each}")).json() for each in ids]
        assert [session["title"] for session in shown] == ["Mine"] * 3
        # OpenCode's clients keep a session off their list by this.
        assert ["archived" in session["time"] for session in shown] == [True, True, False]
        assert [session["id"] for session in (await http.get("/session")).json()] == [ids[-1]]
