"""A session that goes on under another id is the same one for whoever knows it by the old one."""

from pathlib import Path

import anyio
import pytest

from fallback_plugin.errors import AgentError
from fallback_plugin.model_ref import ModelRef
from tests.agent.whole_host import complete, new_session, prompt, running_host, settings_for
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


async def test_a_deletion_under_the_old_id_takes_all_of_the_session(
    provider: ScriptedProvider, tmp_path: Path
) -> None:
    provider.script("first", stream("Yes."))
    async with running_host(tmp_path, settings_for(provider)) as host:
        old = await new_session(host)
        await complete(host, old)
        new = (await host.summarize(old, None)).session_id

        await host.delete_session(old)

        for session_id in (old, new):
            with pytest.raises(AgentError, match="not found"):
                await host.session(session_id)
