"""What users of similar hosts have reported, played on the whole host: see ``docs/reports.md``."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final

import anyio
import anyio.to_thread
import pytest

from fallback_plugin.agent.host import AgentHost
from fallback_plugin.agent.http.guard import Rules
from tests.agent.whole_host import complete, new_session, prompt, running_host, served, settings_for
from tests.loopback.provider import ScriptedProvider
from tests.loopback.reply import Gate, Reply, hang, hang_before_headers, status, stream

pytestmark = pytest.mark.anyio


async def asked(provider: ScriptedProvider, times: int) -> None:
    """Wait until the first model has got so many requests."""
    await anyio.to_thread.run_sync(provider.wait_for, lambda: len(provider.requests("first")) >= times)


async def spoken(host: AgentHost, session_id: str) -> list[str]:
    """Return every text of a session, prompts and answers in their order."""
    parts = [part for message in await host.history(session_id) for part in message["parts"]]
    return [part["text"] for part in parts if part["type"] == "text"]


async def test_report_E4_a_prompt_sent_during_a_summary_runs_after_it(
    provider: ScriptedProvider, tmp_path: Path
) -> None:
    gate = Gate()
    async with running_host(tmp_path, settings_for(provider)) as host, anyio.create_task_group() as tasks:
        provider.script("first", stream("One."), stream("A title"), stream("Summary", gate), stream("Two."))
        session = await new_session(host)
        await complete(host, session, "first")
        await asked(provider, 2)
        tasks.start_soon(host.summarize, session, None)
        await asked(provider, 3)

        sent = [(await host.dispatcher.accept(session, prompt(text))).run.id for text in ("a", "b")]
        gate.open()
        for run_id in sent:
            await host.dispatcher.wait(run_id)

        runs = [await host.run_of(run_id) for run_id in sent]
        assert [run.outcome for run in runs] == ["completed", "completed"]
        (continued,) = {run.session_id for run in runs} - {session}
        assert (await spoken(host, continued))[-4:] == ["a", "Two.", "b", "Two."]


BROKEN: Final[dict[str, Reply]] = {"fails": status(401), "is stopped": hang_before_headers()}


@pytest.mark.parametrize("how", BROKEN)
async def test_report_S13_prompts_wait_for_a_compaction_and_run_if_it_comes_to_nothing(
    provider: ScriptedProvider, tmp_path: Path, how: str
) -> None:
    async with running_host(tmp_path, settings_for(provider)) as host, anyio.create_task_group() as tasks:
        provider.script("first", stream("One."), stream("A title"), BROKEN[how], stream("Two."))
        session = await new_session(host)
        await complete(host, session, "first")
        await asked(provider, 2)
        tasks.start_soon(host.summarize, session, None)
        await asked(provider, 3)

        waiting = (await host.dispatcher.accept(session, prompt("a"))).run.id
        if how == "is stopped":
            await host.stop_session(session, "current")
        await host.dispatcher.wait(waiting)

        assert (await host.run_of(waiting)).session_id == session
        assert (await spoken(host, session))[-2:] == ["a", "Two."]


async def test_report_E7_nobody_waits_for_a_title(provider: ScriptedProvider, tmp_path: Path) -> None:
    async with running_host(tmp_path, settings_for(provider)) as host:
        provider.script("first", stream("One."), hang_before_headers(), stream("Two."))
        session = await new_session(host)
        await complete(host, session)
        await asked(provider, 2)

        assert not host.dispatcher.status(session).is_busy
        assert (await complete(host, session)).outcome == "completed"


async def test_report_S21_what_the_end_announces_is_stored_by_then(
    provider: ScriptedProvider, tmp_path: Path
) -> None:
    async with running_host(tmp_path, settings_for(provider)) as host, anyio.create_task_group() as tasks:
        provider.script("first", hang("Half an answer"))
        session = await new_session(host)
        seen: list[tuple[Any, list[str]]] = []
        over = anyio.Event()

        async def watch(*, task_status: anyio.abc.TaskStatus[None]) -> None:
            with host.bus.subscribe() as events:
                task_status.started()
                async for event in events:
                    if event.type == "run.ended":
                        seen.append((event, await spoken(host, session)))
                        over.set()
                        return

        await tasks.start(watch)
        await host.dispatcher.accept(session, prompt())
        await until(lambda: said(host, session, "Half an answer"))
        await host.stop_session(session)
        await over.wait()

    ((event, texts),) = seen
    assert texts == ["hello", "Half an answer"]
    assert (event.properties["outcome"], event.properties["text"]) == ("cancelled", "Half an answer")


async def test_report_S17_a_client_that_leaves_takes_no_answer_along(
    provider: ScriptedProvider, tmp_path: Path
) -> None:
    gate = Gate()
    async with running_host(tmp_path, settings_for(provider)) as host, served(host, Rules()) as http:
        provider.script("first", stream("The whole ", gate, "answer."))
        session = await new_session(host)
        body = {"parts": [{"type": "text", "text": "hello"}]}
        async with anyio.create_task_group() as client:
            client.start_soon(lambda: http.post(f"/session/{session}/message", json=body))
            await asked(provider, 1)
            client.cancel_scope.cancel()
        gate.open()
        await until(lambda: idle(host, session))

        assert await spoken(host, session) == ["hello", "The whole answer."]


async def until(condition: Callable[[], Awaitable[bool]]) -> None:
    with anyio.fail_after(8):
        while not await condition():
            await anyio.lowlevel.checkpoint()


async def said(host: AgentHost, session_id: str, text: str) -> bool:
    return text in await spoken(host, session_id)


async def idle(host: AgentHost, session_id: str) -> bool:
    return not host.dispatcher.status(session_id).is_busy
