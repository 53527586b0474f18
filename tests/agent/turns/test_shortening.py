"""A history that nearly fills the context is shortened as a phase of the same run, and never for ever."""

import json
from pathlib import Path
from typing import Any

import pytest

from fallback_plugin.agent.turns.compaction import INSTRUCTION, last_context, nearly_full, with_short_outputs
from tests.agent.turns.stage import FIRST, SECOND, Hooks, Stage, stage
from tests.loopback.provider import ScriptedProvider
from tests.loopback.reply import Close, Data, Reply, status, stream, tool_call

pytestmark = pytest.mark.anyio

WINDOW = {"first": {"context": 1000}, "second": {"context": 1000}, "third": {}}


def using(tokens: int, reply: Reply) -> Reply:
    """Return a reply that tells how many tokens the context holds."""
    usage = {"prompt_tokens": tokens, "completion_tokens": 0}
    return (*reply[:-3], Data(json.dumps({"choices": [], "usage": usage})), Data("[DONE]"), Close())


def call(number: int) -> Reply:
    return tool_call("bash", {"command": f"echo {number}"})


def is_summary(body: Any) -> bool:
    return INSTRUCTION in str(body["messages"][-1]["content"])


def kinds_of_requests(provider: ScriptedProvider) -> list[str]:
    return ["summary" if is_summary(request.body) else "step" for request in provider.requests()]


def current(on: Stage) -> str:
    """Return the session that carries the first one on."""
    session_id = on.session
    while (following := on.store.sessions[session_id].continued_by) is not None:
        session_id = following
    return session_id


@pytest.mark.parametrize(
    ("used", "window", "full"),
    [
        (799, 1000, False),
        (800, 1000, True),
        (0, None, False),
        (10**9, 0, False),
        (379_999, 400_000, False),
        (380_000, 400_000, True),
        (160_000, 200_000, True),
    ],
)
def test_when_a_context_is_nearly_full(used: int, window: int | None, *, full: bool) -> None:
    assert nearly_full(used, window) is full


def test_the_context_is_what_the_last_answer_says() -> None:
    said: list[dict[str, Any]] = [
        {"info": {"tokens": {"total": 5}}},
        {"info": {"tokens": {"total": 7}}},
        {"info": {"tokens": {}}},
        {},
    ]
    assert last_context(said) == 7
    assert last_context([*said, {"info": {"summary": True}}]) == 0


def test_a_summary_needs_no_whole_files() -> None:
    long: dict[str, Any] = {"type": "tool", "state": {"status": "completed", "output": "x" * 10_000}}

    (short,) = with_short_outputs([{"info": {}, "parts": [long]}])

    assert len(short["parts"][0]["state"]["output"]) < 2_100
    assert len(long["state"]["output"]) == 10_000


async def test_a_turn_goes_on_in_a_new_session(provider: ScriptedProvider, tmp_path: Path) -> None:
    provider.script(
        "first", using(900, call(1)), stream("They want tea."), using(100, stream("Here is tea."))
    )
    async with stage(provider, tmp_path, models=WINDOW) as on:
        run = await on.run("make tea")

        new = current(on)
        assert new != on.session
        assert on.store.sessions[new].continues == on.session
        cut, summary, asked, answer = on.store.messages[new]
        assert [part["type"] for part in cut["parts"]] == ["compaction"]
        assert (summary["info"]["summary"], summary["info"]["mode"]) == (True, "compaction")
        assert summary["parts"][0]["text"] == "They want tea."
        assert asked["parts"][0]["text"] == "make tea"
        assert answer["info"]["parentID"] == asked["info"]["id"]
        assert {each["info"]["sessionID"] for each in on.store.messages[new]} == {new}
        assert on.store.text(on.session) == ""
        assert on.store.ends[run.id].outcome == "completed"
    assert kinds_of_requests(provider) == ["step", "summary", "step"]
    assert "tools" not in provider.requests()[1].body
    last = provider.requests()[2].body["messages"]
    assert [message["role"] for message in last] == ["system", "user"]
    assert "They want tea." in last[1]["content"]
    assert last[1]["content"].endswith("make tea")


async def test_a_new_turn_of_a_full_session_is_shortened_first(
    provider: ScriptedProvider, tmp_path: Path
) -> None:
    provider.script("first", using(900, stream("One.")), stream("A summary."), stream("Two."))
    async with stage(provider, tmp_path, models=WINDOW) as on:
        await on.run("first")
        await on.run("second")

        assert on.store.text(current(on)) == "A summary.Two."
    assert kinds_of_requests(provider) == ["step", "summary", "step"]


async def test_report_E5_a_window_that_stays_full_is_shortened_once(
    provider: ScriptedProvider, tmp_path: Path
) -> None:
    steps = [using(900, call(number)) for number in range(4)]
    provider.script("first", steps[0], stream("A summary."), *steps[1:], using(900, stream("Done.")))
    async with stage(provider, tmp_path, models=WINDOW) as on:
        run = await on.run()

        assert on.store.ends[run.id].outcome == "completed"
    assert kinds_of_requests(provider).count("summary") == 1


async def test_after_progress_it_may_be_shortened_again(provider: ScriptedProvider, tmp_path: Path) -> None:
    provider.script(
        "first",
        using(900, call(1)),
        stream("Summary one."),
        using(100, call(2)),
        using(900, call(3)),
        stream("Summary two."),
        using(100, stream("Done.")),
    )
    async with stage(provider, tmp_path, models=WINDOW) as on:
        await on.run()

    assert kinds_of_requests(provider) == ["step", "summary", "step", "step", "summary", "step"]


async def test_report_E5_an_unknown_window_is_never_shortened(
    provider: ScriptedProvider, tmp_path: Path
) -> None:
    provider.script("first", using(10**9, call(1)), using(10**9, stream("Done.")))
    async with stage(provider, tmp_path) as on:
        await on.run()

        assert current(on) == on.session


async def test_report_E5_a_summary_that_fails_ends_the_turn(
    provider: ScriptedProvider, tmp_path: Path
) -> None:
    hooks = Hooks()
    provider.script("first", using(900, call(1)), status(500))
    async with stage(provider, tmp_path, models=WINDOW, hooks=hooks) as on:
        run = await on.run()

        end = on.store.ends[run.id]
        assert end.outcome == "failed"
        assert end.error is not None
        assert end.error["data"]["statusCode"] == 500
        assert on.store.answers(on.session)[-1]["info"]["error"] == end.error
        assert current(on) == on.session
    assert [failure.agent for failure in hooks.failures] == ["compaction"]
    assert len(provider.requests()) == 2


async def test_a_summary_is_taken_over_by_the_next_model(provider: ScriptedProvider, tmp_path: Path) -> None:
    hooks = Hooks(SECOND)
    provider.script("first", using(900, call(1)), status(429))
    provider.script("second", stream("A summary."), stream("Done."))
    async with stage(provider, tmp_path, models=WINDOW, hooks=hooks) as on:
        await on.run()

        assert on.store.text(current(on)) == "A summary.Done."
    assert hooks.failures[0].model == FIRST


OVERFLOW = status(
    400, "This model's maximum context length is 1000 tokens. Please reduce the length of the messages."
)


async def test_a_request_that_is_too_long_is_shortened(provider: ScriptedProvider, tmp_path: Path) -> None:
    provider.script("first", OVERFLOW, stream("A summary."), stream("Done."))
    async with stage(provider, tmp_path, models=WINDOW) as on:
        run = await on.run()

        assert on.store.ends[run.id].outcome == "completed"
        assert on.store.text(current(on)) == "A summary.Done."
        assert on.store.answers(on.session) == []


async def test_report_E5_a_request_that_stays_too_long_ends_the_turn(
    provider: ScriptedProvider, tmp_path: Path
) -> None:
    provider.script("first", OVERFLOW, stream("A summary."), OVERFLOW)
    async with stage(provider, tmp_path, models=WINDOW) as on:
        run = await on.run()

        assert on.store.ends[run.id].outcome == "failed"
    assert kinds_of_requests(provider) == ["step", "summary", "step"]


async def test_what_was_always_allowed_is_so_in_the_new_session(
    provider: ScriptedProvider, tmp_path: Path
) -> None:
    async with stage(provider, tmp_path) as on:
        on.permissions._always["ses_old"] = {("write", "a.txt")}
        on.permissions.carry_over("ses_old", "ses_new")
        on.permissions.forget("ses_old")

        assert on.permissions._always == {"ses_new": {("write", "a.txt")}}
