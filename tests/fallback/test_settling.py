"""What `opencode run` owes when it ends, and how that is answered."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

import pytest

from fallback_plugin.events import (
    AssistantMessage,
    HostError,
    LastRequest,
    Message,
    Part,
    StoredMessage,
    UserMessage,
)
from fallback_plugin.fallback import effects
from fallback_plugin.fallback.engine import Engine
from fallback_plugin.fallback.settling import Settlement
from fallback_plugin.host_client import HostKind
from tests.fallback.stage import PRIMARY, A, B, Stage, api_error, settings
from tests.fallback.test_inline import failed

ENDED: Final = {"created": 1, "completed": 2}
USER: Final = UserMessage(id="msg_1", session_id="ses_1", model=PRIMARY, created_at=1.0, agent="build")


def run(host_kind: HostKind = "run", **more: Any) -> Stage:
    """Return a stage of `opencode run` with a turn whose first request is under way."""
    stage = Stage(Engine(settings(**more), host_kind=host_kind))
    stage.user()
    stage.answer("msg_2")
    return stage


def settle(stage: Stage, history: Sequence[StoredMessage] = ()) -> Settlement | None:
    stage.look()
    settlement, todo = stage.engine.settle(stage.session, history, stage.now)
    stage.take(todo)
    return settlement


def answer(text: str = "", error: HostError | None = None) -> StoredMessage:
    info: Message = AssistantMessage(
        id="msg_3", session_id="ses_1", parent_id="msg_1", model=A, created_at=2.0, error=error
    )
    part = Part(id="prt_3", message_id="msg_3", session_id="ses_1", type="text", text=text)
    return StoredMessage(info=info, parts=(part,) if text else ())


def judged(stage: Stage, settlement: Settlement | None, stored: StoredMessage | None) -> bool:
    """Take an answer in, and tell whether the turn is still owed."""
    assert settlement is not None
    stage.take(stage.engine.settled(stage.session, settlement, stored, stage.now))
    return stage.engine.owes(stage.session)


def out_of_reach(stage: Stage) -> None:
    """Let the first request fail where no other model can answer it."""
    assert failed(stage, reachable=frozenset()) == "final"


def test_a_run_that_fails_is_neither_stopped_nor_sent_again_while_it_lasts() -> None:
    stage = run()
    stage.error(api_error(401))
    stage.idle()
    assert stage.engine.owes("ses_1")
    assert (stage.all(effects.Abort), stage.all(effects.Prompt), stage.all(effects.Claim)) == ([], [], [])


@pytest.mark.parametrize("fail", [out_of_reach, lambda stage: stage.error(api_error(401)), Stage.retry])
def test_complaint_94_what_is_owed_is_sent_again_in_place_to_the_next_model(fail: Any) -> None:
    stage = run()
    fail(stage)
    settlement = settle(stage)
    assert settlement is not None
    assert (settlement.prompt.model, settlement.prompt.message_id) == (A, "msg_1")
    assert not judged(stage, settlement, answer("All well."))


def test_a_failure_is_owed_once_whatever_the_host_still_says_of_it() -> None:
    stage = run()
    out_of_reach(stage)
    stage.error(api_error(400, "The model failed. fallback-plugin goes on."))
    stage.idle()
    settlement = settle(stage)
    assert settlement is not None
    assert settlement.prompt.model == A
    assert settle(stage) is None


def test_a_model_that_fails_at_the_end_is_followed_by_the_next() -> None:
    stage = run()
    out_of_reach(stage)
    asked = []
    for stored in (answer(error=HostError(name="APIError", status_code=429)), answer("All well.")):
        settlement = settle(stage)
        assert settlement is not None
        asked.append(settlement.prompt.model)
        judged(stage, settlement, stored)
    assert asked == [A, B]
    assert not stage.engine.owes("ses_1")


@pytest.mark.parametrize("stored", [answer(), None])
def test_no_answer_is_no_success(stored: StoredMessage | None) -> None:
    stage = run()
    out_of_reach(stage)
    assert judged(stage, settle(stage), stored)


def said_switched(stage: Stage) -> tuple[list[str], list[str]]:
    """Return what was written down of answers by another model, and the toasts that told of them."""
    written = [each.reason for each in stage.all(effects.Record) if each.decision == "switched"]
    return written, [toast.message for toast in stage.toasts if toast.variant == "success"]


def test_an_answer_that_is_seen_in_events_and_returned_is_told_of_once() -> None:
    stage = run()
    stage.error(api_error(401))
    settlement = settle(stage)
    stage.began("msg_3", A)
    stage.content("msg_3")
    judged(stage, settlement, answer("All well."))
    assert said_switched(stage) == ([str(A)], [f"Now on {A}. {PRIMARY}: refused the key (401)."])


def test_an_answer_whose_events_come_after_it_was_returned_is_told_of_once() -> None:
    stage = run()
    stage.error(api_error(401))
    judged(stage, settle(stage), answer("All well."))
    stage.began("msg_3", A)
    stage.content("msg_3")
    assert said_switched(stage) == ([str(A)], [f"Now on {A}. {PRIMARY}: refused the key (401)."])


def test_an_answer_whose_events_have_not_come_shows_that_its_model_is_back() -> None:
    stage = run()
    stage.close(A, stage.now + 10)
    stage.now += 20
    stage.error(api_error(401))
    judged(stage, settle(stage), answer("All well."))
    assert [(each.model, each.asked_at) for each in stage.all(effects.Reopen)] == [(A, stage.now)]


def test_an_answer_of_the_same_model_asked_once_more_is_no_switch() -> None:
    stage = run()
    stage.error({"name": "UnknownError", "data": {"message": "Something odd."}})
    settlement = settle(stage)
    assert settlement is not None
    assert settlement.prompt.model == PRIMARY
    judged(stage, settlement, answer("All well."))
    assert said_switched(stage) == ([], [])


def test_when_all_have_failed_it_is_said_once_and_nothing_is_left_to_do() -> None:
    stage = run()
    assert failed(stage) == A
    assert failed(stage, PRIMARY, A) == B
    assert failed(stage, PRIMARY, A, B) == "final"
    assert settle(stage) is None
    (toast,) = (toast for toast in stage.toasts if toast.variant == "error")
    assert all(str(model) in toast.message for model in (PRIMARY, A, B))


def test_half_an_answer_is_deleted_first() -> None:
    stage = run()
    stage.content("msg_2")
    assert failed(stage, ending="broken") == "final"
    settlement = settle(stage)
    assert settlement is not None
    assert settlement.doomed == ("msg_2",)


def test_an_empty_answer_is_deleted_first() -> None:
    stage = run()
    stage.host(
        "message.part.updated",
        part={"id": "prt_9", "sessionID": "ses_1", "messageID": "msg_2", "type": "step-finish"},
    )
    stage.answer("msg_2", finish="stop", time={"created": 1, "completed": 2})
    settlement = settle(stage)
    assert settlement is not None
    assert settlement.doomed == ("msg_2",)


def test_a_run_that_the_person_stopped_owes_nothing() -> None:
    stage = run()
    stage.error({"name": "MessageAbortedError", "data": {"message": "Aborted"}})
    stage.idle()
    assert not stage.engine.owes("ses_1")


def test_a_turn_whose_message_was_not_seen_is_found_in_the_history() -> None:
    stage = Stage(Engine(settings(), host_kind="run"))
    stage.answer("msg_2")
    stage.error(api_error(401))
    assert settle(stage) is None
    stage = Stage(Engine(settings(), host_kind="run"))
    stage.answer("msg_2")
    stage.error(api_error(401))
    part = Part(id="prt_1", message_id="msg_1", session_id="ses_1", type="text", text="Who answers?")
    settlement = settle(stage, [StoredMessage(info=USER, parts=(part,))])
    assert settlement is not None
    assert settlement.prompt.message_id == "msg_1"


def test_complaint_29_a_hung_run_without_a_watched_request_is_ended_so_that_it_can_be_settled() -> None:
    stage = run(first_token_timeout=5)
    timer = stage.last(effects.StartTimer)
    stage.tell(effects.TimerFired(stage.session, "first_token", timer.attempt))
    assert stage.all(effects.Abort) == []
    stage.finish(stage.last(effects.GiveUp), effects.Failed("no such request", 404))
    assert len(stage.all(effects.Abort)) == 1
    stage.aborted()
    assert stage.engine.owes("ses_1")
    settlement = settle(stage)
    assert settlement is not None
    assert settlement.prompt.model == A


@pytest.mark.parametrize("kind", ["run", "acp"])
def test_a_request_that_was_left_while_it_flowed_ends_its_run_by_itself(kind: HostKind) -> None:
    stage = run(kind, stall_timeout=5)
    stage.content("msg_2")
    timer = stage.last(effects.StartTimer)
    stage.now += 6
    stage.tell(effects.TimerFired(stage.session, "stall", timer.attempt))
    stage.finish(stage.last(effects.GiveUp), effects.Done())
    assert stage.all(effects.Abort) == []
    assert stage.engine.owes("ses_1")


def by_another(stage: Stage, stored: StoredMessage, error: HostError | None = None) -> bool:
    """Let another process of ours move the turn to `B`, and tell whether it is still owed."""
    settlement = settle(stage)
    assert settlement is not None
    assert settlement.prompt.model == A
    last = LastRequest(B, error)
    return judged(stage, settlement, replace(stored, last_request=last))


def test_an_answer_that_another_process_had_from_another_model_is_not_the_first_ones() -> None:
    """`opencode run` has the prompt carried out by another instance, and the first model named on it."""
    stage = run()
    stage.error(api_error(401))
    assert not by_another(stage, answer("All well."))
    assert said_switched(stage) == ([str(B)], [f"Now on {B}. {PRIMARY}: refused the key (401)."])


def test_what_a_run_sees_of_an_answer_it_waits_for_is_said_once_it_is_whole() -> None:
    stage = run()
    stage.error(api_error(401))
    settlement = settle(stage)
    stage.began("msg_3", A)
    stage.content("msg_3")
    stage.answer("msg_3", A, finish="stop", time=ENDED)
    assert said_switched(stage) == ([], [])
    judged(stage, settlement, answer("All well."))
    assert said_switched(stage)[0] == [str(A)]


def test_a_model_that_took_a_run_over_is_said_to_be_in_use_once_its_answer_is_whole() -> None:
    stage = run()
    assert failed(stage) == A
    stage.content("msg_2")
    assert said_switched(stage) == ([], [])
    stage.answer("msg_2", finish="stop", time=ENDED)
    assert said_switched(stage)[0] == [str(A)]


def test_a_model_whose_answer_broke_off_is_not_said_to_be_in_use() -> None:
    stage = run()
    assert failed(stage) == A
    stage.content("msg_2")
    assert failed(stage, A, ending="broken") == "final"
    assert said_switched(stage) == ([], [])


def test_what_failed_of_a_prompt_is_what_the_process_says_that_saw_it() -> None:
    stage = run()
    stage.error(api_error(401))
    handed_on = HostError(name="UnknownError", message="The model failed. fallback-plugin goes on.")
    assert by_another(stage, answer(error=handed_on), HostError(name="", status_code=429))
    assert settle(stage) is None
    said = stage.toasts[-1].message
    assert f"{B}: rate limited (429)" in said
    assert said_switched(stage) == ([], [])


def test_a_model_that_failed_for_another_process_is_not_asked_once_more() -> None:
    stage = run()
    stage.error(api_error(401))
    settlement = settle(stage)
    handed_on = HostError(name="UnknownError", message="The model failed. fallback-plugin goes on.")
    last = LastRequest(A, HostError(name=""), "broken")
    assert judged(stage, settlement, replace(answer(error=handed_on), last_request=last))
    settlement = settle(stage)
    assert settlement is not None
    assert settlement.prompt.model == B


def test_a_bad_request_ends_the_run_as_it_would_without_us() -> None:
    stage = run()
    stage.error(api_error(400, "Invalid value for 'messages'."))
    assert not stage.engine.owes("ses_1")


ABORTED: Final = {"name": "MessageAbortedError", "data": {"message": "Aborted"}}


def test_P3_in_acp_a_failed_request_is_answered_inline_by_default() -> None:
    assert failed(run("acp")) == A


@pytest.mark.parametrize("switching", ["auto", "inline", "replay"])
def test_P3_in_acp_what_cannot_be_inline_is_owed_and_no_run_is_stopped(switching: str) -> None:
    stage = run("acp", switching=switching)
    out_of_reach(stage)
    stage.error(api_error(400, "The model failed. fallback-plugin goes on."))
    stage.idle()
    assert (stage.all(effects.Abort), stage.all(effects.Prompt)) == ([], [])
    settlement = settle(stage)
    assert settlement is not None
    assert settlement.prompt.model == A


ENDS_AT_IDLE: Final[tuple[HostKind, ...]] = ("run", "acp")


def cut_off(stage: Stage) -> None:
    """Let the step end without a reason: the host asks its model again at once, without end."""
    stage.answer("msg_2", finish="unknown", time=ENDED)


@pytest.mark.parametrize("kind", ENDS_AT_IDLE)
@pytest.mark.parametrize("fail", [Stage.retry, cut_off])
def test_P3_a_run_that_would_ask_again_is_ended_so_that_it_can_be_settled(kind: HostKind, fail: Any) -> None:
    stage = run(kind)
    fail(stage)
    assert len(stage.all(effects.Abort)) == 1
    stage.aborted()
    settlement = settle(stage)
    assert settlement is not None
    assert settlement.prompt.model == A


def test_P3_a_turn_that_is_stopped_before_it_is_sent_again_is_owed_no_more() -> None:
    stage = run("acp")
    out_of_reach(stage)
    stage.idle()
    stage.error(ABORTED)
    assert not stage.engine.owes("ses_1")


def test_P3_a_turn_that_is_stopped_while_it_is_sent_again_is_owed_no_more() -> None:
    stage = run("acp")
    out_of_reach(stage)
    stage.idle()
    settlement = settle(stage)
    stage.error(ABORTED)
    assert not judged(stage, settlement, None)


@pytest.mark.parametrize("stored", [answer(), answer("Half"), None])
def test_P3_what_became_of_a_stopped_turn_says_nothing_of_the_message_after_it(
    stored: StoredMessage | None,
) -> None:
    """It may come when the user has gone on; their message was answered twice then."""
    stage = run("acp")
    out_of_reach(stage)
    stage.idle()
    settlement = settle(stage)
    stage.abort_requested()
    stage.user("msg_5")
    stage.answer("msg_6", parent="msg_5")
    before = len(stage.all(effects.Record))
    assert not judged(stage, settlement, stored)
    assert len(stage.all(effects.Record)) == before


def test_P3_what_an_earlier_turn_was_owed_is_not_owed_in_the_next() -> None:
    stage = run("acp")
    out_of_reach(stage)
    stage.idle()
    stage.user("msg_5")
    assert not stage.engine.owes("ses_1")


@pytest.mark.parametrize("kind", ENDS_AT_IDLE)
def test_P3_a_run_whose_host_asks_again_all_the_same_is_ended_once(kind: HostKind) -> None:
    stage = run(kind)
    stage.content("msg_2")
    assert failed(stage, ending="broken") == "final"
    stage.retry()
    stage.retry()
    assert len(stage.all(effects.Abort)) == 1
    assert stage.engine.owes("ses_1")


def test_P3_what_another_copy_has_handed_on_is_its_to_send_again() -> None:
    stage = run("acp")
    stage.error({"name": "UnknownError", "data": {"message": "The model failed. fallback-plugin goes on."}})
    assert not stage.engine.owes("ses_1")
