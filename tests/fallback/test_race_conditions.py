"""The twenty race conditions: two signals, one failure; our aborts and the user's."""

from typing import Any

import pytest

from fallback_plugin.fallback import effects
from fallback_plugin.fallback.effects import Done, Failed
from fallback_plugin.fallback.engine import Engine
from fallback_plugin.fallback.guards import AbortLedger, RetryInFlight, superseded
from fallback_plugin.fallback.state import FallbackState, Plan, Refusal
from tests.fallback.stage import ABORTED, PRIMARY, A, B, Stage, api_error, settings

CHAIN = (A, B)
NOW = 1_000.0


def prepare(state: FallbackState, *, max_attempts: int = 10) -> Plan | Refusal:
    return state.prepare(CHAIN, NOW, max_attempts=max_attempts)


def on_retry(**changes: Any) -> Stage:
    """A turn whose primary is rate limited and waits for its first retry; our abort is open."""
    stage = Stage(Engine(settings(**changes)))
    stage.user()
    stage.answer("msg_2")
    stage.retry()
    return stage


def streaming_fallback(**changes: Any) -> Stage:
    """A turn whose fallback answers, some seconds after it took over."""
    stage = on_retry(**changes)
    stage.fail_over("msg_3", A)
    stage.now += 3
    return stage


def test_race_01_without_a_mark_two_handlers_would_move_the_chain_twice() -> None:
    state = FallbackState.on(PRIMARY)
    first, second, third = prepare(state), prepare(state), prepare(state)
    assert isinstance(first, Plan)
    assert isinstance(second, Plan)
    assert (first.model, second.model) == (A, B)
    assert third == Refusal("exhausted")


def test_race_02_a_held_mark_keeps_the_second_handler_from_preparing() -> None:
    mark, state = RetryInFlight(), FallbackState.on(PRIMARY)
    for _ in range(2):
        if mark.claim("ses_1"):
            prepare(state)
    assert state.attempts == 1


def test_race_03_the_mark_is_held_from_the_failure_until_the_dispatch_is_answered() -> None:
    stage = on_retry()
    held = [stage.in_flight]
    stage.aborted()
    held.append(stage.in_flight)
    stage.accepted()
    held.append(stage.in_flight)
    assert held == [True, True, False]


def test_race_04_an_exhausted_chain_leaves_no_mark_behind() -> None:
    stage = on_retry(chain=("fake/primary",))
    assert stage.all(effects.Abort) == []
    assert not stage.in_flight


@pytest.mark.parametrize("status", [None, 500])
def test_race_05_a_failing_abort_releases_the_mark_and_is_said(status: int | None) -> None:
    stage = on_retry()
    stage.finish(stage.last(effects.Abort), Failed("no answer", status))
    assert not stage.in_flight
    assert stage.asked == []
    assert stage.toasts[-1].title == "Fallback failed"


def test_race_06_the_first_fallbacks_failure_takes_the_mark_again_and_moves_on() -> None:
    stage = on_retry()
    stage.fail_over("msg_3", A)
    stage.retry()
    assert stage.in_flight
    stage.fail_over("msg_4", B)
    assert stage.asked == [A, B]


def test_race_07_each_quota_failure_leaves_its_record() -> None:
    stage = on_retry()
    stage.fail_over("msg_3", A)
    stage.retry("You exceeded your current quota")
    stage.fail_over("msg_4", B)
    stage.retry("You exceeded your current quota")
    closed = [key.provider for key, _ in stage.health.view(stage.now).entries()]
    assert closed == sorted(model.provider for model in (PRIMARY, A, B))


def test_race_08_when_all_models_failed_in_turn_it_is_said_once() -> None:
    stage = on_retry()
    stage.fail_over("msg_3", A)
    stage.retry()
    stage.fail_over("msg_4", B)
    for attempt in (1, 2, 3):
        stage.retry(attempt=attempt)
    said = [toast for toast in stage.toasts if toast.title == "All fallbacks exhausted"]
    assert len(said) == 1
    assert stage.asked == [A, B]


def test_race_09_the_cap_on_attempts_refuses_the_third() -> None:
    state = FallbackState.on(PRIMARY)
    chain = (A, B, PRIMARY)
    for _ in range(2):
        state.prepare(chain, NOW, max_attempts=2)
    assert state.plan(chain, NOW, max_attempts=2) == Refusal("max_attempts")
    assert state.attempts == 2


def test_race_10_an_error_of_the_primary_is_old_news_while_a_fallback_is_pending() -> None:
    state = FallbackState(PRIMARY, PRIMARY, pending=A)
    assert superseded(state, PRIMARY)


def test_race_11_an_error_of_the_pending_model_is_news() -> None:
    state = FallbackState(PRIMARY, PRIMARY, pending=A)
    assert not superseded(state, A)


def test_race_12_with_nothing_pending_nothing_is_old_news() -> None:
    assert not superseded(FallbackState.on(PRIMARY), PRIMARY)


def test_race_13_an_errored_message_and_a_session_error_are_one_failure() -> None:
    stage = Stage()
    stage.user()
    stage.answer("msg_2")
    stage.error(api_error(401))
    stage.idle()
    stage.answer("msg_2", error=api_error(401))
    stage.aborted()
    stage.accepted()
    stage.answer("msg_2", error=api_error(401))
    assert stage.asked == [A]


def test_race_14_three_signals_of_one_failure_are_answered_once() -> None:
    stage = on_retry()
    stage.error(api_error(429))
    stage.answer("msg_2", error=api_error(429))
    stage.aborted()
    assert len(stage.all(effects.Abort)) == 1
    assert stage.asked == [A]


def test_race_15_two_sessions_fail_at_once_and_share_nothing() -> None:
    stage = on_retry()
    other = Stage(stage.engine, session="ses_2")
    other.user()
    other.answer("msg_2")
    other.retry()
    in_flight = stage.engine.switching.in_flight
    assert set(in_flight) == {"ses_1", "ses_2"}
    stage.fail_over("msg_3", A)
    assert set(in_flight) == {"ses_2"}
    assert other.state.state is not stage.state.state


def test_race_16_an_abort_is_written_down_before_the_host_is_asked() -> None:
    stage = on_retry()
    ledger = stage.state.ledger
    abort = stage.last(effects.Abort)
    assert ledger.aborted(abort.attempt)
    assert ledger.entries[abort.attempt].opened_at == stage.now
    assert ledger.may_still_report(stage.now)


def test_race_17_our_aborts_error_moves_nothing_while_the_result_is_awaited() -> None:
    stage = on_retry()
    stage.error(ABORTED)
    stage.aborted()
    stage.accepted()
    stage.answer("msg_2", error=ABORTED)
    turn = stage.state.turn
    assert turn is not None
    assert turn.awaiting_result
    assert not turn.cancelled
    assert stage.asked == [A]


def test_race_18_an_abort_error_long_after_ours_advances_if_so_configured() -> None:
    stage = streaming_fallback(on_foreign_abort="advance")
    stage.error(ABORTED)
    stage.aborted()
    assert stage.asked == [A, B]


def test_race_18_an_abort_error_long_after_ours_is_the_users_and_sends_nothing() -> None:
    stage = streaming_fallback()
    stage.error(ABORTED)
    stage.idle()
    stage.answer("msg_3", A, error=ABORTED)
    stage.idle()
    assert stage.asked == [A]
    assert len(stage.all(effects.Abort)) == 1


def without_any_abort_of_ours(**changes: Any) -> Stage:
    stage = Stage(Engine(settings(**changes)))
    stage.user()
    stage.answer("msg_2")
    stage.content("msg_2")
    stage.error(ABORTED)
    return stage


def test_race_19_an_abort_error_without_an_abort_of_ours_advances_if_so_configured() -> None:
    stage = without_any_abort_of_ours(on_foreign_abort="advance")
    stage.aborted()
    assert stage.asked == [A]


def test_race_19_an_abort_error_without_an_abort_of_ours_is_the_users_and_sends_nothing() -> None:
    stage = without_any_abort_of_ours()
    stage.idle()
    stage.answer("msg_2", error=ABORTED)
    assert stage.all(effects.Abort) == []
    assert stage.asked == []


def test_race_20_deleting_the_session_forgets_our_aborts() -> None:
    stage = on_retry()
    stage.host("session.deleted", info={"id": stage.session})
    assert stage.engine.session(stage.session) is None
    assert not stage.in_flight
    assert stage.finish(stage.last(effects.Abort), Done()) == []
    assert AbortLedger().entries == {}
