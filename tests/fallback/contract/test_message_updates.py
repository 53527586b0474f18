"""What an updated message means.

Expressed anew, since on OpenCode 1.18.33 a ``message.updated`` carries no parts: content is what the part
events show, so a visible answer is a text, reasoning or tool part of the new model's message, and nothing
is fetched to find one. A retry status of the fallback needs to override no mark: the mark is free once the
prompt was answered. A stale error is known by its message, not by the model's name, so none is
resynchronised; a model the host chose by itself is an attempt of its own. A compaction is a turn as
others are (``test_engine.TestCompaction``).

Shown elsewhere: a status no other model mends (``test_engine``); no chain (``test_engine``); an error of an
older attempt or turn (``test_engine``, late news); our own abort's error (race 17); a message event without
``info`` (``tests/wire/test_event.py``); a streaming primary is not timed out
(``test_engine.TestFirstToken``).
"""

from typing import Any

import pytest

from fallback_plugin.fallback import effects
from fallback_plugin.model_ref import ModelRef
from tests.fallback.stage import ABORTED, PRIMARY, A, B, Stage, api_error
from tests.fallback.turns import answered, answering, awaiting, end, fire, rate_limited, running

NOW_ON_A = "Now on spare/a."


def said(stage: Stage) -> list[str]:
    return [toast.message for toast in stage.toasts]


@pytest.mark.parametrize("kind", ["text", "reasoning", "tool"])
def test_content_of_the_fallback_confirms_the_switch(kind: str) -> None:
    stage = awaiting()
    stage.content("msg_3", kind)
    assert said(stage)[-1].startswith(NOW_ON_A)


@pytest.mark.parametrize("kind", ["step-start", "step-finish", "snapshot", "patch"])
def test_the_hosts_own_parts_confirm_nothing(kind: str) -> None:
    stage = awaiting()
    stage.content("msg_3", kind)
    assert NOW_ON_A not in "\n".join(said(stage))


def test_a_stub_without_parts_confirms_nothing() -> None:
    stage = awaiting()
    stage.answer("msg_3", A)
    assert NOW_ON_A not in "\n".join(said(stage))
    assert stage.state.turn is not None
    assert stage.state.turn.awaiting_result


def test_an_errored_fallback_confirms_nothing() -> None:
    stage = awaiting()
    stage.answer("msg_3", A, error=api_error(503))
    assert NOW_ON_A not in "\n".join(said(stage))


def test_content_of_the_failed_models_message_confirms_nothing() -> None:
    stage = awaiting()
    stage.content("msg_2")
    assert NOW_ON_A not in "\n".join(said(stage))


def test_content_of_a_message_nobody_announced_confirms_nothing() -> None:
    stage = awaiting()
    stage.content("msg_99")
    assert NOW_ON_A not in "\n".join(said(stage))


def test_late_content_of_a_fallback_that_was_given_up_confirms_nothing() -> None:
    stage = awaiting(first_token_timeout="30s")
    fire(stage)
    stage.content("msg_3")
    assert NOW_ON_A not in "\n".join(said(stage))


def test_an_answer_of_nothing_but_blanks_is_an_empty_one() -> None:
    stage = running()
    part = {"id": "prt_1", "sessionID": stage.session, "messageID": "msg_2", "type": "text", "text": " \n"}
    stage.host("message.part.updated", part=part)
    end(stage, "msg_2")
    assert len(stage.all(effects.Claim)) == 1


def test_the_users_own_parts_are_no_answer() -> None:
    stage = awaiting()
    stage.content("msg_1")
    assert NOW_ON_A not in "\n".join(said(stage))


def test_a_users_message_alone_starts_no_switch() -> None:
    stage = Stage()
    stage.user()
    assert [type(effect) for effect in stage.effects] == [effects.FetchSession]


def test_an_errored_message_alone_is_enough() -> None:
    stage = running()
    stage.answer("msg_2", error=api_error(503))
    stage.aborted()
    assert stage.asked == [A]


def test_an_error_part_is_a_failure_of_the_model() -> None:
    stage = running()
    part = {"id": "prt_1", "messageID": "msg_2", "type": "error", "text": "429 Too Many Requests"}
    stage.host("message.part.updated", part={**part, "sessionID": stage.session})
    stage.aborted()
    assert stage.asked == [A]


def test_an_error_part_of_the_failed_model_is_the_same_failure() -> None:
    stage = rate_limited()
    part = {"id": "prt_1", "messageID": "msg_2", "type": "error", "text": "429 Too Many Requests"}
    stage.host("message.part.updated", part={**part, "sessionID": stage.session})
    stage.aborted()
    assert stage.asked == [A]
    assert len(stage.all(effects.Claim)) == 1


@pytest.mark.parametrize("error", [api_error(429), api_error(400), ABORTED])
def test_an_error_of_the_failed_model_is_stale_whatever_it_says(error: dict[str, Any]) -> None:
    stage = awaiting()
    stage.answer("msg_2", error=error)
    assert stage.asked == [A]
    assert not stage.in_flight
    assert stage.state.turn is not None
    assert not stage.state.turn.cancelled


def test_an_error_of_the_failed_model_while_the_prompt_is_on_its_way_is_stale() -> None:
    stage = rate_limited()
    stage.aborted()
    stage.answer("msg_2", error=api_error(429))
    stage.accepted()
    assert stage.asked == [A]
    assert len(stage.all(effects.Abort)) == 1


def test_a_model_the_host_chose_by_itself_is_the_one_that_failed() -> None:
    other = ModelRef("fake", "other")
    stage = running()
    stage.answer("msg_3", other)
    stage.retry()
    stage.aborted()
    stage.accepted()
    assert [effect.model for effect in stage.all(effects.CloseModel)] == [other]
    assert stage.asked == [A]


def test_a_late_error_of_a_model_the_host_left_by_itself_is_stale() -> None:
    stage = running()
    stage.answer("msg_3", ModelRef("fake", "other"))
    stage.content("msg_3")
    stage.answer("msg_2", error=api_error(429))
    assert stage.all(effects.Claim) == []


def test_a_chain_at_its_end_is_said_once_even_if_the_host_goes_on_by_itself() -> None:
    stage = rate_limited(chain=("fake/primary",))
    stage.answer("msg_3", ModelRef("fake", "other"), parent="msg_1")
    stage.retry()
    assert [toast.title for toast in stage.toasts] == ["All fallbacks exhausted"]


def test_the_first_failure_is_what_gives_a_session_its_primary() -> None:
    stage = running()
    before = stage.state.state
    stage.retry()
    assert before is None
    assert stage.state.state is not None
    assert stage.state.state.original == PRIMARY


def test_a_model_picked_by_hand_is_given_its_time() -> None:
    stage = answered(first_token_timeout="30s")
    picked = ModelRef("fake", "picked")
    stage.user("msg_5", picked)
    stage.answer("msg_6", picked, parent="msg_5")
    assert stage.last(effects.StartTimer).after_s == 30
    fire(stage)
    stage.aborted()
    assert stage.asked == [A]


def test_every_message_counts_as_a_sign_of_life_of_its_session() -> None:
    stage = running()
    stage.now += 1_000
    stage.answer("msg_2")
    assert stage.state.last_seen == stage.now


def test_a_retry_of_the_fallback_before_its_first_word_moves_on() -> None:
    stage = awaiting()
    stage.retry()
    stage.aborted()
    assert stage.asked == [A, B]


def test_a_retry_before_the_fallback_has_begun_is_the_old_models() -> None:
    stage = rate_limited()
    stage.aborted()
    stage.accepted()
    stage.retry(attempt=2)
    assert stage.asked == [A]
    assert not stage.in_flight


def test_a_finished_answer_of_the_fallback_leaves_nothing_open() -> None:
    stage = answering()
    end(stage, "msg_3", A)
    stage.idle()
    assert not stage.engine.busy(stage.session)
    assert len(stage.all(effects.Abort)) == 1
