"""A tool waits for the person's word, and what each word does to the turn."""

from pathlib import Path

import anyio
import pytest

from fallback_plugin.agent.turns.hooks import NoHooks
from fallback_plugin.errors import AgentError
from fallback_plugin.hookspecs import PermissionRequest, Verdict
from fallback_plugin.settings import PermissionSettings
from tests.agent.turns.stage import FIRST, Stage, stage, stopped_when
from tests.loopback.provider import ScriptedProvider
from tests.loopback.reply import stream, tool_call

pytestmark = pytest.mark.anyio

ASK = PermissionSettings()
WRITE = tool_call("write", {"path": "a.txt", "content": "x"})


async def asked(on: Stage) -> str:
    """Wait for an open question, and return its id."""
    with anyio.fail_after(5):
        while not on.permissions.questions():
            await on.something_published.wait()
    return str(on.permissions.questions()[-1]["id"])


async def run_and_answer(on: Stage, reply: str, message: str | None = None) -> str:
    """Run a turn whose one question is answered; return the outcome."""
    run = on.store.ask(on.session, "hi", FIRST)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(on.runner.run, run, on._steered)
        await on.permissions.reply(await asked(on), reply, message)  # type: ignore[arg-type]
    return on.store.ends[run.id].outcome


async def test_a_question_holds_what_a_person_needs(provider: ScriptedProvider, tmp_path: Path) -> None:
    provider.script("first", WRITE, stream("done"))
    async with stage(provider, tmp_path, permissions=ASK) as on:
        await run_and_answer(on, "once")

        (kind, question), (replied, answer) = on.published
        message = on.store.answers(on.session)[0]["info"]["id"]
    assert (kind, replied) == ("permission.asked", "permission.replied")
    assert question == {
        "id": question["id"],
        "sessionID": on.session,
        "permission": "write",
        "patterns": ["a.txt"],
        "metadata": {"title": "Write a.txt"},
        "always": ["a.txt"],
        "tool": {"messageID": message, "callID": "call_1"},
    }
    assert answer == {"sessionID": on.session, "requestID": question["id"], "reply": "once"}


async def test_allowed_once_the_tool_runs(provider: ScriptedProvider, tmp_path: Path) -> None:
    provider.script("first", WRITE, stream("done"))
    async with stage(provider, tmp_path, permissions=ASK) as on:
        assert await run_and_answer(on, "once") == "completed"
        assert on.permissions.questions() == []
    assert (tmp_path / "a.txt").read_text() == "x"


async def test_allowed_always_it_is_not_asked_again(provider: ScriptedProvider, tmp_path: Path) -> None:
    provider.script("first", WRITE, WRITE, stream("done"))
    async with stage(provider, tmp_path, permissions=ASK) as on:
        await run_and_answer(on, "always")

        assert [kind for kind, _ in on.published] == ["permission.asked", "permission.replied"]
        assert [state["status"] for state in on.store.tool_states(on.session)] == ["completed", "completed"]


async def test_a_rejection_ends_the_turn(provider: ScriptedProvider, tmp_path: Path) -> None:
    provider.script("first", WRITE, stream("never"))
    async with stage(provider, tmp_path, permissions=ASK) as on:
        assert await run_and_answer(on, "reject") == "completed"

        (state,) = on.store.tool_states(on.session)
        assert state["status"] == "error"
        assert "rejected permission" in state["error"]
    assert len(provider.requests()) == 1
    assert not (tmp_path / "a.txt").exists()


async def test_a_rejection_with_a_word_is_told_to_the_model(
    provider: ScriptedProvider, tmp_path: Path
) -> None:
    provider.script("first", WRITE, stream("As you wish."))
    async with stage(provider, tmp_path, permissions=ASK) as on:
        assert await run_and_answer(on, "reject", "use b.txt") == "completed"

        assert on.store.text(on.session) == "As you wish."
    assert "use b.txt" in provider.requests("first")[1].body["messages"][-1]["content"]


async def test_what_the_settings_deny_is_told_to_the_model(
    provider: ScriptedProvider, tmp_path: Path
) -> None:
    provider.script("first", WRITE, stream("Then not."))
    async with stage(provider, tmp_path, permissions=PermissionSettings(write="deny")) as on:
        await on.run()

        assert on.published == []
        assert on.store.text(on.session) == "Then not."
    assert not (tmp_path / "a.txt").exists()


@pytest.mark.parametrize(("verdict", "written"), [("allow", True), ("deny", False)])
async def test_a_plugin_may_answer_for_the_person(
    provider: ScriptedProvider, tmp_path: Path, verdict: Verdict, *, written: bool
) -> None:
    class Answering(NoHooks):
        async def permission_ask(self, request: PermissionRequest) -> Verdict | None:
            assert (request.type, request.pattern) == ("write", ("a.txt",))
            return verdict

    provider.script("first", WRITE, stream("done"))
    async with stage(provider, tmp_path, permissions=ASK, hooks=Answering()) as on:
        await on.run()

        assert on.published == []
    assert (tmp_path / "a.txt").exists() is written


async def test_a_stop_withdraws_the_question(provider: ScriptedProvider, tmp_path: Path) -> None:
    provider.script("first", WRITE)
    async with stage(provider, tmp_path, permissions=ASK) as on:
        run = on.store.ask(on.session, "hi", FIRST)

        await stopped_when(lambda: on.runner.run(run, on._steered), lambda: asked(on))

        assert on.permissions.questions() == []
        assert [kind for kind, _ in on.published] == ["permission.asked", "permission.replied"]
        assert [state["status"] for state in on.store.tool_states(on.session)] == ["error"]
        assert on.store.ends[run.id].outcome == "cancelled"
        with pytest.raises(AgentError, match="not found"):
            await on.permissions.reply(on.published[0][1]["id"], "once")
