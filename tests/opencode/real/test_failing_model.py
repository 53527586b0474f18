"""A failing model in the real OpenCode, beyond the scenarios: what is said, and every other way to fail."""

import time
from collections.abc import Callable, Mapping
from typing import Final

import pytest

from tests.loopback.event_log import Raw, session_of, toast_of
from tests.loopback.opencode_home import provider_each, ref
from tests.loopback.opencode_server import OpenCodeServer
from tests.loopback.provider import ScriptedProvider
from tests.loopback.reply import (
    Gate,
    Reply,
    cut,
    done_only,
    error_object,
    hang,
    reset,
    status,
    stream,
    thinking,
    tool_call,
)
from tests.loopback.turn import PROMPT, Turn
from tests.opencode.real.conftest import BeginTurn, StartServer

pytestmark = pytest.mark.real_host

LOUD: Final[Mapping[str, Reply]] = {"limited": status(429), "bad-key": status(401)}
SILENT: Final[Mapping[str, Reply]] = {
    "error-object-after-text": error_object("Half an "),
    "reset-before-headers": reset(),
    "reset-after-text": reset("Half an "),
    "only-done": done_only(),
    "hang-after-headers": hang(),
    "hang-after-text": hang("Half an "),
    "only-reasoning": thinking("Let me ", "think."),
}
AFTER_TOOL: Final[Mapping[str, Reply]] = {
    "tool-then-bad-key": status(401),
    "tool-then-empty": stream(),
    "tool-then-cut": cut("Half an "),
}
HEALTHY: Final[Mapping[str, Reply]] = {
    "well": stream("All ", "well."),
    "fallback-a": stream("Answer ", "of a."),
}
EMPTY: Final = "empty-then-more"
BEFORE_MISSING: Final = "limited-before-missing"
ALWAYS_CUT: Final = ("always-cut", "cut-as-well")
CUT_LATER: Final = ("cut-first", "cut-later")
TOLD: Final[Mapping[str, Reply]] = {"cut-and-told": cut("Half an "), "reset-and-told": reset("Half an ")}
THOUGHTFUL: Final = "thoughtful-then-limited"
LATER: Final = Gate()
QUEUED: Final = Gate()
HALF_BEHIND: Final[Mapping[str, Reply]] = {
    "hang-behind": hang("Half an "),
    "error-behind": error_object("Half an ", QUEUED),
    "cut-behind": cut("Half an ", QUEUED),
}
SETTLED_S: Final = 0.6
MOMENTS_S: Final = (0.0, 0.002, 0.005, 0.01, 0.015, 0.02, 0.03, 0.05)
"""Times after an empty answer's run at which the next message comes."""

SETTINGS: Final = f"""
[fallback]
fallback_models = ["{ref("fallback-a")}"]

[models."{ref("hang-after-headers")}"]
first_token_timeout = "1s"

[models."{ref("hang-after-text")}"]
stall_timeout = "1s"

[models."{ref("hang-behind")}"]
stall_timeout = "3s"

[models."{ref(EMPTY)}"]
cooldown = 0

[models."{ref("limited-behind")}"]
cooldown = 0

[agents.hopeless]
fallback_models = ["{ref(ALWAYS_CUT[1])}"]

[agents.waited-for]
fallback_models = ["{ref(CUT_LATER[1])}"]

[agents.missing]
fallback_models = ["of-fallback-a/no-such-model", "{ref("fallback-a")}"]
"""


@pytest.fixture(scope="module")
def server(start_server: StartServer, provider: ScriptedProvider) -> OpenCodeServer:
    single = {**LOUD, **SILENT, **HEALTHY, **TOLD, **HALF_BEHIND, BEFORE_MISSING: status(429)}
    single |= {EMPTY: stream(), "limited-behind": status(429)}
    single |= dict.fromkeys(ALWAYS_CUT, cut("Half an "))
    single |= dict(zip(CUT_LATER, (cut("Half an "), cut("Half of ", LATER)), strict=True))
    for model, reply in single.items():
        provider.script(model, reply)
    provider.script(THOUGHTFUL, thinking("Let me ", "think.", answer="Well thought."), status(429))
    for model, reply in AFTER_TOOL.items():
        command = {"command": f"echo ran >> {model}", "description": "Leaves a line"}
        provider.script(model, tool_call("bash", command), reply)
    server = start_server(
        models=provider_each([*single, THOUGHTFUL, *AFTER_TOOL]),
        settings=SETTINGS,
        config={
            "agent": {
                "missing": {"mode": "primary", "description": "Its first fallback does not exist."},
                "hopeless": {"mode": "primary", "description": "Its fallback fails as well."},
                "waited-for": {"mode": "primary", "description": "Its fallback fails when told to."},
            },
            "permission": {"bash": "allow"},
        },
    )
    server.warm_up("of-limited")
    return server


@pytest.fixture(scope="module", params=list(LOUD))
def saved(request: pytest.FixtureRequest, server: OpenCodeServer, provider: ScriptedProvider) -> Turn:
    return Turn.begin(server, provider, ref(request.param)).wait_for_switch("Answer of a.")


def test_the_fallback_gets_the_same_conversation(saved: Turn) -> None:
    failed, answered = saved.requests()
    assert answered.body["messages"][1:] == failed.body["messages"][1:]


def test_a_toast_says_what_failed_and_what_is_tried(saved: Turn) -> None:
    (message,) = (toast["message"] for toast in saved.toasts() if toast["variant"] == "warning")
    assert ref(saved.asked()[0]) in message
    assert ref("fallback-a") in message


def test_switched_is_said_after_content(saved: Turn, server: OpenCodeServer) -> None:
    events = server.events.since(saved.began)
    said = next(number for number, event in enumerate(events) if is_success(toast_of(event)))
    spoken = next(
        number for number, event in enumerate(events) if event["properties"].get("delta") == "Answer "
    )
    assert spoken < said


@pytest.mark.parametrize("primary", SILENT)
def test_a_failure_without_a_status_is_answered_by_the_fallback(begin: BeginTurn, primary: str) -> None:
    turn = begin(ref(primary)).wait_for_switch("Answer of a.")

    assert turn.is_quiet(SETTLED_S)
    assert [model for model in turn.asked() if model != primary] == ["fallback-a"]
    assert turn.user_texts() == [[PROMPT]]
    assert turn.said() == ["warning", "success"]


@pytest.mark.parametrize("primary", TOLD)
def test_an_answer_that_was_cut_off_is_said_to_be(begin: BeginTurn, primary: str) -> None:
    turn = begin(ref(primary)).wait_for_switch("Answer of a.")

    trying, now_on = (toast["message"] for toast in turn.toasts())
    assert trying == f"{ref(primary)}: answer was cut off. Trying {ref('fallback-a')} …"
    assert f"{ref(primary)}: answer was cut off, rests until " in now_on


@pytest.mark.parametrize("primary", AFTER_TOOL)
def test_a_finished_tool_step_is_kept(begin: BeginTurn, server: OpenCodeServer, primary: str) -> None:
    turn = begin(ref(primary)).wait_for_switch("Answer of a.")

    assert turn.is_quiet(SETTLED_S)
    assert [model for model in turn.asked() if model != primary] == ["fallback-a"]
    assert (server.home.directory / primary).read_text() == "ran\n"
    assert "tool" in turn.requests()[-1].roles


def test_a_last_model_whose_stream_is_cut_is_not_asked_without_end(
    begin: BeginTurn, server: OpenCodeServer
) -> None:
    turn = begin(ref(ALWAYS_CUT[0]), agent="hopeless")
    server.events.wait_for_toast("error", since=turn.began)

    turn.wait_for_error()
    assert turn.is_quiet(SETTLED_S)
    assert set(turn.asked()) == set(ALWAYS_CUT)
    assert turn.asked().count(ALWAYS_CUT[1]) == 1
    (message,) = (toast["message"] for toast in turn.toasts() if toast["variant"] == "error")
    assert ref(ALWAYS_CUT[1]) in message


def test_a_message_behind_a_last_model_whose_stream_is_cut_is_answered(
    begin: BeginTurn, server: OpenCodeServer
) -> None:
    turn = begin(ref(CUT_LATER[0]), agent="waited-for").wait_for_delta("Half of ")
    server.prompt(turn.session, "And now?", ref("well"), agent="build")
    LATER.open()

    turn.wait_for_answer("All well.")
    assert turn.is_quiet(SETTLED_S)
    assert turn.user_texts() == [[PROMPT], ["And now?"]]
    assert turn.asked()[-1] == "well"
    assert turn.asked().count("well") == 1


def with_a_message_behind(turn: Turn) -> Turn:
    """Let a message wait behind half an answer, and then the answer fail; return the turn once answered."""
    turn.wait_for_delta("Half an ")
    turn.server.prompt(turn.session, "And now?", ref(turn.asked()[0]), agent="build")
    wait_until(turn, lambda event: event["properties"].get("part", {}).get("text") == "And now?")
    QUEUED.open()
    return turn.wait_for_answer("Answer of a.")


def test_a_message_behind_a_cut_answer_is_answered_by_the_fallback(begin: BeginTurn) -> None:
    """OpenCode may begin its run before it can be stopped; the half answer stays then."""
    turn = with_a_message_behind(begin(ref("cut-behind")))

    assert turn.is_quiet(SETTLED_S)
    assert turn.user_texts() == [[PROMPT], ["And now?"]]
    assert turn.asked().count("fallback-a") == 1


@pytest.mark.parametrize("primary", ["hang-behind", "error-behind"])
def test_a_message_behind_half_an_answer_is_answered_by_the_fallback_without_that(
    begin: BeginTurn, server: OpenCodeServer, primary: str
) -> None:
    turn = with_a_message_behind(begin(ref(primary)))

    assert turn.is_quiet(SETTLED_S)
    assert turn.user_texts() == [[PROMPT], ["And now?"]]
    assert turn.asked() == [primary, "fallback-a"]
    assert "Half an" not in str(turn.requests()[-1].body["messages"])
    assert "Half an" not in str(server.messages(turn.session))


def is_finished(event: Raw) -> bool:
    return bool(event["properties"].get("info", {}).get("finish") == "stop")


def is_idle(event: Raw) -> bool:
    return bool(event["type"] == "session.idle")


def is_removed(event: Raw) -> bool:
    return bool(event["type"] == "message.removed")


def wait_until(turn: Turn, moment: Callable[[Raw], bool]) -> None:
    turn.server.events.wait_for(
        lambda event: session_of(event) == turn.session and moment(event), since=turn.began
    )


@pytest.mark.parametrize("second", ["well", "limited-behind"])
@pytest.mark.parametrize("moment", [is_finished, is_idle, is_removed])
def test_P2_a_message_sent_while_an_empty_answer_is_replaced_is_kept(
    begin: BeginTurn, server: OpenCodeServer, moment: Callable[[Raw], bool], second: str
) -> None:
    """Once the second message was lost with the first, and a model was asked without the user's words."""
    turn = begin(ref(EMPTY))
    wait_until(turn, moment)
    server.prompt(turn.session, "And now?", ref(second), agent="build")

    if moment is not is_removed:
        # Between our removal and our prompt it may stay unanswered: OpenCode takes ours for newer.
        turn.wait_for_answer("All well." if second == "well" else "Answer of a.")
    while not turn.is_quiet(SETTLED_S) or server.is_busy(turn.session):
        pass  # the first message may be answered after the second
    assert turn.user_texts() == [[PROMPT], ["And now?"]]
    assert all(PROMPT in str(request.body["messages"]) for request in turn.requests())


@pytest.mark.thorough
@pytest.mark.timeout(600)
def test_P2_no_message_is_lost_at_any_moment_in_which_an_empty_answer_is_replaced(
    begin: BeginTurn, server: OpenCodeServer
) -> None:
    """When the first message was taken back instead, 4 of 32 were lost on a quiet machine."""
    lost: list[tuple[float, list[list[str]]]] = []
    for delay_s in MOMENTS_S * 3:
        turn = begin(ref(EMPTY))
        wait_until(turn, is_idle)
        time.sleep(delay_s)
        server.prompt(turn.session, "And now?", ref("limited-behind"), agent="build")
        turn.wait_for_answer("Answer of a.")
        while not turn.is_quiet(SETTLED_S) or server.is_busy(turn.session):
            pass
        texts = turn.user_texts()
        wordless = [each for each in turn.requests() if PROMPT not in str(each.body["messages"])]
        if texts != [[PROMPT], ["And now?"]] or wordless:
            lost.append((delay_s, texts))
    assert lost == []


def test_complaint_54_thoughts_of_the_first_model_reach_the_next_as_plain_text(begin: BeginTurn) -> None:
    thoughtful = begin(ref(THOUGHTFUL)).wait_for_answer("Well thought.")

    turn = begin(ref(THOUGHTFUL), session=thoughtful.session, text="And now?")

    turn.wait_for_switch("Answer of a.")
    earlier = [message for message in turn.requests()[-1].body["messages"] if message["role"] == "assistant"]
    assert earlier == [{"role": "assistant", "content": "Let me think.Well thought."}]


def test_a_fallback_the_host_does_not_know_is_passed_over(begin: BeginTurn) -> None:
    turn = begin(ref(BEFORE_MISSING), agent="missing").wait_for_switch("Answer of a.")

    assert turn.is_quiet(SETTLED_S)
    assert turn.asked() == [BEFORE_MISSING, "fallback-a"]


def test_a_good_answer_is_left_alone(begin: BeginTurn) -> None:
    turn = begin(ref("well")).wait_for_answer("All well.")

    assert turn.is_quiet(SETTLED_S)
    assert (turn.asked(), turn.said()) == (["well"], [])


def is_success(toast: Raw | None) -> bool:
    return toast is not None and toast["variant"] == "success"
