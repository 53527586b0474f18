"""What the events of a session mean, other than its messages.

Expressed anew, since OpenCode 1.18.33 says other things, or in another order:

- An idle proves nothing by itself: a failed run makes one before its error is seen, and an abort one of its
  own. A fallback that took no effect is known by its silence, one that said nothing by its finished empty
  message.
- An idle never gives the mark back: it comes in the midst of every switch.
- ``session.stop`` does not exist; a stop is an abort that is not ours, or an idle too many.
- Part events name a message and no model; the message is of one attempt.
- No agent is looked up, so nothing can become pending meanwhile.
- An abort error long after ours is the user's word, not a failure (invariant 2); race 18 shows both
  settings.

Shown elsewhere: an error while a fallback is pending or awaited, and of an old model (``test_engine``,
races 10 to 14); our own abort's error (race 17) and its expiry (``test_guards``); waiters
(``test_plugin``); deletion (race 20); switched off (``test_engine``); a compacted session
(``test_plugin``).
"""

import pytest

from fallback_plugin.events import Part, StoredMessage, UserMessage
from fallback_plugin.fallback import effects
from fallback_plugin.fallback.effects import Done, Fetched, StopTimer
from fallback_plugin.host_client import Receipt
from fallback_plugin.wire.event import read_event
from tests.fallback.stage import ABORTED, PRIMARY, A, B, Stage, api_error
from tests.fallback.turns import answered, answering, awaiting, end, fire, rate_limited, running


def test_an_error_without_a_session_is_ignored() -> None:
    stage = running()
    event = read_event({"type": "session.error", "properties": {"error": api_error(429)}})
    assert stage.tell(event) == []


def test_an_event_nobody_knows_is_ignored() -> None:
    stage = running()
    assert stage.host("session.stop") == []
    assert stage.all(effects.Abort) == []


@pytest.mark.parametrize("status", ["busy", "idle"])
def test_a_status_other_than_retry_is_no_failure(status: str) -> None:
    stage = running()
    stage.host("session.status", status={"type": status})
    assert stage.all(effects.Claim) == []


def test_an_idle_in_the_midst_of_a_switch_keeps_the_mark() -> None:
    stage = running()
    stage.error(api_error(401))
    stage.idle()
    assert stage.in_flight
    stage.answer("msg_2", error=api_error(401))
    stage.idle()
    assert stage.in_flight
    assert len(stage.all(effects.Claim)) == 1


def test_an_idle_while_the_fallbacks_first_word_is_awaited_is_no_failure() -> None:
    stage = awaiting()
    stage.idle()
    assert stage.asked == [A]
    assert stage.engine.busy(stage.session)


def test_an_idle_after_the_fallbacks_first_word_ends_the_turn() -> None:
    stage = answering()
    stage.idle()
    assert not stage.engine.busy(stage.session)
    assert stage.asked == [A]


def test_an_idle_of_a_session_nobody_follows_is_harmless() -> None:
    stage = Stage()
    assert [type(effect) for effect in stage.idle()] == [effects.FetchSession]


def test_a_dispatch_that_took_no_effect_is_known_by_its_silence() -> None:
    stage = rate_limited(first_token_timeout="30s")
    stage.aborted()
    stage.accepted()
    fire(stage)
    stage.aborted()
    assert stage.asked == [A, B]


def test_a_fallback_that_ends_with_nothing_said_moves_on() -> None:
    stage = awaiting()
    end(stage, "msg_3", A)
    assert len(stage.all(effects.Claim)) == 2


def test_a_users_stop_ends_the_wait_for_the_fallback() -> None:
    stage = awaiting(first_token_timeout="30s")
    stage.error(ABORTED)
    fire(stage)
    assert stage.asked == [A]
    assert not stage.engine.busy(stage.session)


def test_a_users_stop_stops_the_timers() -> None:
    stage = awaiting(first_token_timeout="30s")
    new = stage.error(ABORTED)
    assert StopTimer(stage.session, "first_token") in new
    assert StopTimer(stage.session, "stall") in new


def test_a_deleted_sessions_timers_stop() -> None:
    stage = awaiting(first_token_timeout="30s")
    new = stage.host("session.deleted", info={"id": stage.session})
    assert {type(effect) for effect in new} == {StopTimer}


def test_a_deleted_session_may_come_again_without_memories() -> None:
    stage = answering()
    stage.host("session.deleted", info={"id": stage.session})
    stage.user("msg_7")
    assert stage.state.state is None
    assert stage.state.parent_id is None


def test_after_a_compaction_an_idle_is_no_silent_failure() -> None:
    stage = awaiting()
    stage.host("session.compacted")
    stage.idle()
    assert stage.asked == [A]


def test_a_compaction_of_a_quiet_session_does_nothing() -> None:
    stage = answered()
    assert stage.host("session.compacted") == []
    assert stage.idle() == [StopTimer(stage.session, name) for name in ("first_token", "stall")]


def test_our_aborts_error_is_no_stop_with_or_without_a_fallback_awaited() -> None:
    stage = rate_limited()
    stage.error(ABORTED)
    assert stage.state.turn is not None
    assert not stage.state.turn.cancelled
    stage.idle()
    stage.idle()
    stage.finish(stage.last(effects.Abort), Done(Receipt(stage.sequence - 4, stage.sequence)))
    stage.answer("msg_2", error=ABORTED)
    assert not stage.state.turn.cancelled
    assert stage.asked == [A]


def test_a_session_error_before_the_history_is_read_is_judged_once_it_is() -> None:
    stage = Stage()
    stage.error(api_error(401))
    assert stage.all(effects.FetchMessages) != []
    assert stage.all(effects.Claim) == []


def test_two_errors_of_a_turn_not_seen_yet_read_its_history_once() -> None:
    stage = Stage()
    stage.error(api_error(401))
    stage.retry()
    assert len(stage.all(effects.FetchMessages)) == 1


class TestActivity:
    """Parts and text that grows."""

    def test_it_is_life_of_the_model_that_answers(self) -> None:
        stage = running(first_token_timeout="30s")
        stage.content("msg_2")
        fire(stage)
        assert stage.all(effects.Claim) == []

    def test_it_is_life_of_the_fallback(self) -> None:
        stage = awaiting(first_token_timeout="30s")
        stage.content("msg_3")
        fire(stage)
        assert stage.asked == [A]

    def test_the_failed_models_is_no_life_of_the_fallback(self) -> None:
        stage = awaiting(first_token_timeout="30s")
        stage.content("msg_2")
        fire(stage)
        stage.aborted()
        assert stage.asked == [A, B]

    def test_text_that_grows_before_any_part_is_seen_says_nothing(self) -> None:
        stage = running()
        delta = {"messageID": "msg_2", "partID": "prt_1", "delta": "Hi"}
        assert stage.host("message.part.delta", **delta) == []

    def test_text_that_grows_in_a_session_nobody_follows_is_harmless(self) -> None:
        stage = Stage()
        delta = {"messageID": "msg_2", "partID": "prt_1", "delta": "Hi"}
        assert [type(effect) for effect in stage.host("message.part.delta", **delta)] == [
            effects.FetchSession
        ]

    def test_it_of_another_session_is_no_life_of_this_one(self) -> None:
        stage = running(first_token_timeout="30s")
        other = Stage(stage.engine, session="ses_2")
        other.user()
        other.answer("msg_2", PRIMARY)
        other.content("msg_2")
        fire(stage)
        assert len(stage.all(effects.Claim)) == 1


class TestStopInTheMidst:
    """A stop that falls into a switch whose own abort was answered already: one idle more."""

    def read(self, stage: Stage) -> None:
        user = UserMessage(id="msg_1", session_id=stage.session, model=PRIMARY, created_at=1.0)
        part = Part(id="p", message_id="msg_1", session_id=stage.session, type="text", raw={"type": "text"})
        history = (StoredMessage(info=user, parts=(part,)),)
        stage.finish(stage.last(effects.FetchMessages), Fetched(messages=history))

    def in_the_terminal(self) -> Stage:
        stage = rate_limited()
        stage.engine.host_kind = "tui"
        stage.aborted()
        return stage

    def test_while_the_turn_is_read(self) -> None:
        stage = self.in_the_terminal()
        stage.idle()
        self.read(stage)
        assert stage.all(effects.Revert) == []
        assert not stage.in_flight

    def test_while_the_turn_is_taken_back(self) -> None:
        stage = self.in_the_terminal()
        self.read(stage)
        stage.idle()
        stage.finish(stage.last(effects.Revert))
        assert stage.prompts == []
        assert not stage.in_flight

    def test_while_a_half_answer_is_deleted(self) -> None:
        stage = running()
        stage.content("msg_2")
        stage.retry()
        sent_after = stage.sequence
        stage.idle()
        answered_abort = Done(Receipt(sent_after, stage.sequence))
        delete, *_ = stage.engine.finished(stage.last(effects.Abort), answered_abort, stage.now)
        assert isinstance(delete, effects.DeleteMessage)
        stage.idle()
        stage.finish(delete)
        assert stage.prompts == []
        assert not stage.in_flight

    def test_while_the_parts_of_a_refused_prompt_are_read(self) -> None:
        stage = rate_limited()
        stage.aborted()
        stage.refused()
        stage.idle()
        self.read(stage)
        assert len(stage.prompts) == 1
        assert not stage.in_flight

    def test_while_an_empty_answers_last_events_are_waited_for(self) -> None:
        stage = running()
        end(stage, "msg_2")
        stage.idle()
        stage.idle()
        stage.user()
        assert stage.all(effects.FetchMessages) == []
        assert not stage.in_flight

    def test_while_the_prompt_is_handed_in(self) -> None:
        stage = rate_limited()
        stage.aborted()
        stage.idle()
        stage.accepted()
        assert not stage.in_flight
        stage.answer("msg_3", A)
        assert len(stage.all(effects.Abort)) == 2
