"""A stop keeps what was said and done, closes what is open, and leaves a session that goes on."""

from pathlib import Path

import anyio
import pytest

from fallback_plugin.agent.records import Json
from fallback_plugin.errors import StoreError
from fallback_plugin.hookspecs import ToolCall, ToolResult
from tests.agent.turns.looking import lives, pid_in, until
from tests.agent.turns.memory_store import MemoryJournal
from tests.agent.turns.stage import FIRST, SECOND, Hooks, Stage, stage, stopped_when
from tests.loopback.provider import ScriptedProvider
from tests.loopback.reply import hang, hang_before_headers, stream, tool_call

pytestmark = pytest.mark.anyio

SLEEPER = tool_call("bash", {"command": "sleep 60 & echo $! > child; echo $$ > pid; wait"})


async def stopped_in_a_tool(on: Stage, folder: Path) -> str:
    """Run a turn, and stop it while its command runs; return the run's id."""
    run = on.store.ask(on.session, "hi", FIRST)

    async def moment() -> None:
        await pid_in(folder / "pid")
        await pid_in(folder / "child")

    await stopped_when(lambda: on.runner.run(run, on._steered), moment)
    return run.id


async def test_report_E1_a_stop_reaches_a_tool_and_its_children(
    provider: ScriptedProvider, tmp_path: Path
) -> None:
    provider.script("first", SLEEPER)
    async with stage(provider, tmp_path) as on:
        run_id = await stopped_in_a_tool(on, tmp_path)

        assert on.store.ends[run_id].outcome == "cancelled"
    assert not lives(await pid_in(tmp_path / "pid"))
    child = await pid_in(tmp_path / "child")
    await until(lambda: not lives(child))


async def test_report_E2_a_session_stopped_in_a_tool_goes_on(
    provider: ScriptedProvider, tmp_path: Path
) -> None:
    provider.script("first", SLEEPER, stream("I go on."))
    async with stage(provider, tmp_path) as on:
        await stopped_in_a_tool(on, tmp_path)
        run = await on.run("go on")

        assert on.store.ends[run.id].outcome == "completed"
    messages = provider.requests("first")[1].body["messages"]
    assert [message["role"] for message in messages] == ["system", "user", "assistant", "tool", "user"]
    assert messages[3] == {"role": "tool", "tool_call_id": "call_1", "content": "Tool execution aborted"}


async def test_report_E14_a_stop_keeps_every_part(provider: ScriptedProvider, tmp_path: Path) -> None:
    provider.script("first", tool_call("bash", {"command": "echo kept"}), hang("half an "))
    async with stage(provider, tmp_path) as on:
        run = on.store.ask(on.session, "hi", FIRST)

        async def moment() -> None:
            await until(lambda: on.store.text(on.session) == "half an ")

        await stopped_when(lambda: on.runner.run(run, on._steered), moment)

        first, second = on.store.answers(on.session)
        assert first["info"]["finish"] == "tool-calls"
        assert on.store.tool_states(on.session)[0]["output"] == "kept\n"
        assert second["info"]["error"]["name"] == "MessageAbortedError"
        (part,) = (part for part in second["parts"] if part["type"] == "text")
        assert part["text"] == "half an "
        assert "end" in part["time"]


async def test_a_stop_before_the_first_word_is_an_empty_answer(
    provider: ScriptedProvider, tmp_path: Path
) -> None:
    async with stage(provider, tmp_path) as on:
        run = on.store.ask(on.session, "hi", FIRST)
        with anyio.CancelScope() as scope:
            scope.cancel()
            await on.runner.run(run, on._steered)

        (answer,) = on.store.answers(on.session)
        assert answer["info"]["error"]["name"] == "MessageAbortedError"
        assert on.store.ends[run.id].outcome == "cancelled"
    assert provider.requests() == []


async def test_plugins_hear_of_the_end_after_it_is_written(
    provider: ScriptedProvider, tmp_path: Path
) -> None:
    hooks = Hooks()
    provider.script("first", hang_before_headers())
    async with stage(provider, tmp_path, hooks=hooks) as on:
        run = on.store.ask(on.session, "hi", FIRST)

        await stopped_when(
            lambda: on.runner.run(run, on._steered),
            lambda: on.until(lambda: bool(provider.requests("first"))),
        )

    (turn,) = hooks.completed
    assert (turn.run_id, turn.outcome, turn.steps) == (run.id, "cancelled", 1)
    assert hooks.failures == []


async def test_a_run_taken_off_its_lane_writes_no_more(provider: ScriptedProvider, tmp_path: Path) -> None:
    class Fencing(Hooks):
        async def tool_after(self, call: ToolCall, result: ToolResult) -> ToolResult | None:
            assert on.journal is not None
            on.journal.fenced = True
            return await super().tool_after(call, result)

    provider.script("first", tool_call("bash", {"command": "true"}), stream("late"))
    async with stage(provider, tmp_path, hooks=Fencing(SECOND)) as on:
        run = await on.run()

        assert run.id not in on.store.ends
        assert on.store.tool_states(on.session)[0]["status"] == "running"
    assert len(provider.requests()) == 1


async def test_a_disk_that_refuses_is_not_hidden(
    provider: ScriptedProvider, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def full(*_: object, **__: object) -> None:
        raise StoreError("the disk is full")

    monkeypatch.setattr(MemoryJournal, "put_part", full)
    provider.script("first", stream("x"))
    async with stage(provider, tmp_path) as on:
        with pytest.raises(StoreError, match="the disk is full"):
            await on.run()
        await on.until(lambda: bool(provider.requests("first")))


async def test_a_bad_call_is_a_result_and_no_crash(provider: ScriptedProvider, tmp_path: Path) -> None:
    provider.script(
        "first",
        tool_call("nothing", {}),
        tool_call("read", {"file": "a"}),
        tool_call("read", {"path": "../../etc/passwd"}),
        tool_call("read", {"path": "missing.txt"}),
        stream("I give up."),
    )
    async with stage(provider, tmp_path) as on:
        await on.run()

        errors = [state["error"] for state in on.store.tool_states(on.session)]
        assert on.store.text(on.session) == "I give up."
    assert "there is no tool 'nothing'" in errors[0]
    assert "the argument 'path' is missing" in errors[1]
    assert "outside of the project" in errors[2]
    assert "No such file" in errors[3]


async def test_a_plugin_may_change_arguments_and_results(provider: ScriptedProvider, tmp_path: Path) -> None:
    class Changing(Hooks):
        async def tool_before(self, call: ToolCall) -> Json | None:
            return {**call.args, "command": "echo changed"}

        async def tool_after(self, call: ToolCall, result: ToolResult) -> ToolResult | None:
            return ToolResult(title=result.title, output=f"{call.args['command']}: {result.output}")

    provider.script("first", tool_call("bash", {"command": "echo original"}), stream("x"))
    async with stage(provider, tmp_path, hooks=Changing()) as on:
        await on.run()

        (state,) = on.store.tool_states(on.session)
        assert state["input"] == {"command": "echo changed"}
        assert state["output"] == "echo changed: changed\n"


async def test_a_plugins_bad_arguments_are_a_result(provider: ScriptedProvider, tmp_path: Path) -> None:
    class Breaking(Hooks):
        async def tool_before(self, call: ToolCall) -> Json | None:
            return {"comand": call.args["command"]}

    provider.script("first", tool_call("bash", {"command": "true"}), stream("x"))
    async with stage(provider, tmp_path, hooks=Breaking()) as on:
        await on.run()

        assert "'command' is missing" in on.store.tool_states(on.session)[0]["error"]
