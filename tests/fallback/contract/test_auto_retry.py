"""How a failed turn is sent again: what is stopped, what is sent, what is left behind.

Expressed anew, since the reference's way does not hold on OpenCode 1.18.33:

- Parts are not fetched and sent a second time: the stored turn runs again in place, and the tiers of parts
  are for a host that refuses that.
- A run that ended by an error is aborted as well: the host may go on by itself, and its idles are counted.
  A turn that ended as if all were well is not, and neither is a child's.
- An abort is written down before the call, since its events come before its answer; a refused one is struck
  out.
- Nothing waits 150 ms after an abort: its answer is what is waited for.
- A history without a user's message has nothing to send, where the reference took any message that is not
  an assistant's: the host has no third kind.
- A compaction is a turn as others are: it runs again in place, and nothing of it is deleted or summarised by
  us (``test_engine.TestCompaction``).
- Agents are not looked up by a call, so no look-up can fail or be overtaken.

Shown elsewhere: tiers and their note, a model refused in every form, no user's message, an unreadable
history (``test_engine.TestHostCalls``); agent, system, tools and format kept (``test_replay``); the mark's
owner (``test_race_conditions``, 02 to 06); the intent before the call (race 16); a cooling session
outliving the sweep (``test_engine.TestPrune``); a timer that is stopped (``test_plugin``); a child's
failure, a finished tool step (``test_engine``); a model that cools for all
(``test_engine.TestSharedHealth``).
"""

import pytest

from fallback_plugin.events import Part, StoredMessage, UserMessage
from fallback_plugin.fallback import effects
from fallback_plugin.fallback.effects import Done, Failed, Fetched, TimerFired
from fallback_plugin.fallback.engine import SESSION_LIFE_S, Engine
from fallback_plugin.host_client import Receipt
from fallback_plugin.model_ref import ModelRef
from fallback_plugin.settings import Settings
from tests.fallback.stage import ABORTED, PRIMARY, A, B, Stage, settings
from tests.fallback.turns import answered, answering, end, fire, rate_limited, running


def stored(*kinds: str, agent: str = "build") -> StoredMessage:
    parts = tuple(
        Part(
            id=f"prt_{number}",
            message_id="msg_1",
            session_id="ses_1",
            type=kind,
            text="Hi" if kind == "text" else None,
            raw={"type": kind, "mime": "image/png"},
        )
        for number, kind in enumerate(kinds)
    )
    user = UserMessage(id="msg_1", session_id="ses_1", model=PRIMARY, created_at=1.0, agent=agent)
    return StoredMessage(info=user, parts=parts)


def the_running_answer_dies(stage: Stage) -> None:
    """Answer the abort of a running request the way the host does."""
    sent_after = stage.sequence
    stage.error(ABORTED)
    stage.idle()
    stage.answer("msg_2", error=ABORTED)
    stage.idle()
    stage.finish(stage.last(effects.Abort), Done(Receipt(sent_after, stage.sequence)))


def read(stage: Stage, *history: StoredMessage) -> None:
    stage.finish(stage.last(effects.FetchMessages), Fetched(messages=history))


def test_nothing_is_sent_before_the_abort_is_answered() -> None:
    stage = rate_limited()
    stage.idle()
    assert stage.prompts == []


def test_the_prompt_follows_the_aborts_answer_at_once() -> None:
    stage = rate_limited()
    stage.aborted()
    assert stage.asked == [A]
    assert stage.all(effects.StartTimer) == []


@pytest.mark.parametrize("next_in", [2.0, 19_920.0])
def test_a_retry_wait_is_ended_by_one_abort_however_long_it_is(next_in: float) -> None:
    stage = running()
    stage.retry(next_in=next_in)
    assert len(stage.all(effects.Abort)) == 1


def test_a_silent_run_is_ended_by_one_abort() -> None:
    stage = running(first_token_timeout="30s")
    fire(stage)
    the_running_answer_dies(stage)
    assert len(stage.all(effects.Abort)) == 1
    assert stage.asked == [A]


def test_a_turn_that_ended_by_itself_is_not_aborted() -> None:
    stage = running()
    end(stage, "msg_2")
    stage.idle()
    stage.user()
    assert stage.all(effects.Abort) == []
    assert stage.asked == [A]


def test_a_turn_of_text_alone_is_sent_without_a_note_about_parts() -> None:
    stage = rate_limited()
    stage.aborted()
    stage.refused()
    read(stage, stored("text"))
    stage.accepted()
    assert [toast.title for toast in stage.toasts] == ["Model fallback"]


def test_a_last_model_refused_in_every_form_leaves_nothing_behind() -> None:
    stage = rate_limited(chain=("spare/a",))
    stage.aborted()
    stage.refused()
    read(stage, stored("text"))
    stage.refused()
    assert stage.toasts[-1].title == "All fallbacks exhausted"
    assert not stage.in_flight
    assert stage.state.switch is None


def abort_fails(stage: Stage) -> None:
    stage.finish(stage.last(effects.Abort), Failed("no answer"))


def history_is_unreadable(stage: Stage) -> None:
    stage.aborted()
    stage.refused()
    stage.finish(stage.last(effects.FetchMessages), Failed("no answer"))


def nothing_to_send(stage: Stage) -> None:
    stage.aborted()
    stage.refused()
    read(stage)


@pytest.mark.parametrize("fail", [abort_fails, history_is_unreadable, nothing_to_send])
def test_a_switch_that_fails_leaves_no_model_pending_and_no_mark(fail: object) -> None:
    stage = rate_limited()
    assert callable(fail)
    fail(stage)
    assert stage.state.state is not None
    assert stage.state.state.pending is None
    assert stage.state.state.current == PRIMARY
    assert not stage.in_flight


def test_a_session_moved_while_the_prompt_was_on_its_way_gets_the_duplicate_stopped() -> None:
    stage = rate_limited()
    stage.aborted()
    assert stage.state.state is not None
    stage.state.state.current = B
    stage.accepted()
    assert len(stage.all(effects.Abort)) == 2
    assert stage.state.state.current == B
    assert not stage.in_flight


def test_a_session_that_went_on_before_the_aborts_answer_is_sent_nothing() -> None:
    stage = rate_limited()
    stage.idle()
    stage.idle()
    stage.user("msg_5")
    stage.finish(stage.last(effects.Abort), Done(Receipt(0, stage.sequence)))
    assert stage.prompts == []
    assert not stage.in_flight


def test_an_abort_the_host_refused_explains_no_later_stop() -> None:
    stage = rate_limited()
    stage.finish(stage.last(effects.Abort), Failed("refused", 500))
    stage.error(ABORTED)
    assert stage.state.turn is not None
    assert stage.state.turn.cancelled


def test_a_failure_whose_abort_was_refused_is_answered_at_its_next_sign() -> None:
    stage = rate_limited()
    stage.finish(stage.last(effects.Abort), Failed("refused", 500))
    stage.retry(attempt=2)
    stage.aborted()
    assert stage.asked == [A]


def test_only_the_first_slash_divides_provider_and_model() -> None:
    stage = rate_limited(chain=("router/vendor/model",))
    stage.aborted()
    assert stage.asked == [ModelRef("router", "vendor/model")]


def two_chains() -> Stage:
    made = {"fallback": {"fallback_models": ["spare/a"], "first_token_timeout": 0}}
    return Stage(
        Engine(Settings.model_validate({**made, "agents": {"plan": {"fallback_models": ["third/b"]}}}))
    )


def test_the_agent_of_a_turn_seen_only_by_its_answer_is_the_answers() -> None:
    stage = two_chains()
    stage.answer("msg_2", agent="plan")
    stage.retry()
    stage.aborted()
    read(stage, stored("text", agent="plan"))
    assert stage.asked == [B]


def test_the_agent_of_a_turn_seen_only_by_its_failure_is_read_from_the_history() -> None:
    stage = two_chains()
    stage.retry()
    read(stage, stored("text", agent="plan"))
    stage.aborted()
    assert stage.asked == [B]


def test_a_turn_without_an_agent_gets_the_global_chain() -> None:
    stage = two_chains()
    stage.user(agent=None)
    stage.answer("msg_2", agent=None)
    stage.retry()
    stage.aborted()
    assert stage.asked == [A]


def test_a_turn_whose_history_cannot_be_read_is_left_alone() -> None:
    stage = two_chains()
    stage.retry()
    stage.finish(stage.last(effects.FetchMessages), Failed("no answer"))
    assert stage.all(effects.Abort) == []
    assert not stage.in_flight


def test_a_sessions_parent_is_looked_up_once() -> None:
    stage = rate_limited()
    stage.fail_over("msg_3", A)
    assert len(stage.all(effects.FetchSession)) == 1


class TestSweep:
    """Forgetting what has been quiet for long."""

    def test_a_fresh_session_is_kept_beside_a_stale_one(self) -> None:
        stage = running()
        other = Stage(stage.engine, session="ses_2", now=stage.now + SESSION_LIFE_S)
        other.user()
        stage.engine.prune(other.now + 1)
        assert stage.engine.session("ses_1") is None
        assert stage.engine.session("ses_2") is not None

    def test_all_stale_sessions_go(self) -> None:
        engine = Engine(settings())
        for number in range(3):
            Stage(engine, session=f"ses_{number}").user()
        engine.prune(1_000_000 + SESSION_LIFE_S + 2)
        assert [engine.session(f"ses_{number}") for number in range(3)] == [None, None, None]

    def test_a_session_whose_failure_is_being_answered_stays(self) -> None:
        stage = rate_limited()
        stage.engine.prune(stage.now + SESSION_LIFE_S + 1)
        assert stage.in_flight
        stage.aborted()
        assert stage.asked == [A]

    def test_a_session_whose_models_have_cooled_down_goes(self) -> None:
        stage = answered()
        stage.engine.prune(stage.now + SESSION_LIFE_S + 61)
        assert stage.engine.session(stage.session) is None

    def test_a_timer_of_a_forgotten_session_does_nothing(self) -> None:
        stage = running(first_token_timeout="30s")
        timer = stage.last(effects.StartTimer)
        stage.engine.prune(stage.now + SESSION_LIFE_S + 1)
        assert stage.tell(TimerFired(timer.session_id, timer.name, timer.attempt)) == []


def test_the_mark_of_a_switch_is_free_once_the_fallback_answers() -> None:
    assert not answering().in_flight
