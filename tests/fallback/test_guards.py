"""One answer for one failure, and our own aborts apart from the user's."""

import pytest

from fallback_plugin.fallback.guards import ABORT_GRACE_S, AbortLedger, RetryInFlight, superseded
from fallback_plugin.fallback.state import FallbackState
from fallback_plugin.model_ref import ModelRef

PRIMARY = ModelRef("anthropic", "opus")
FIRST = ModelRef("openai", "gpt")
SECOND = ModelRef("google", "gemini")
NOW = 1_000.0


def test_the_first_signal_of_a_failure_gets_the_mark() -> None:
    assert RetryInFlight().claim("ses_1")


def test_a_second_signal_does_not_get_the_mark() -> None:
    in_flight = RetryInFlight()
    in_flight.claim("ses_1")

    assert not in_flight.claim("ses_1")


def test_a_released_mark_can_be_taken_again() -> None:
    in_flight = RetryInFlight()
    in_flight.claim("ses_1")

    in_flight.release("ses_1")

    assert in_flight.claim("ses_1")


def test_releasing_a_mark_that_nobody_holds_is_harmless() -> None:
    in_flight = RetryInFlight()

    in_flight.release("ses_1")

    assert "ses_1" not in in_flight


def test_sessions_have_marks_of_their_own() -> None:
    in_flight = RetryInFlight()
    in_flight.claim("ses_1")

    assert in_flight.claim("ses_2")


def test_releasing_one_session_leaves_the_other_in_flight() -> None:
    in_flight = RetryInFlight()
    in_flight.claim("ses_1")
    in_flight.claim("ses_2")

    in_flight.release("ses_1")

    assert list(in_flight) == ["ses_2"]


@pytest.mark.parametrize(
    ("pending", "failed", "old_news"),
    [(FIRST, PRIMARY, True), (FIRST, SECOND, True), (FIRST, FIRST, False), (None, PRIMARY, False)],
    ids=["the model that was left", "a third model", "the pending model", "nothing pending"],
)
def test_an_error_is_old_news_while_another_model_is_pending(
    *, pending: ModelRef | None, failed: ModelRef, old_news: bool
) -> None:
    state = FallbackState(original=PRIMARY, current=PRIMARY, pending=pending)

    assert superseded(state, failed) is old_news


def test_the_guard_tells_variants_apart() -> None:
    high, low = ModelRef("openai", "gpt", "high"), ModelRef("openai", "gpt", "low")
    state = FallbackState(original=high, current=high, pending=low)

    assert superseded(state, high)


def test_an_empty_ledger_explains_no_abort() -> None:
    ledger = AbortLedger()

    assert not ledger.may_still_report(NOW)
    assert not ledger.aborted(1)


def test_an_abort_is_ours_before_the_host_has_answered_the_call() -> None:
    ledger = AbortLedger()

    ledger.open(1, NOW)

    assert ledger.aborted(1)
    assert ledger.may_still_report(NOW)


def test_an_abort_call_without_an_answer_explains_an_error_at_any_time() -> None:
    ledger = AbortLedger()

    ledger.open(1, NOW)

    assert ledger.may_still_report(NOW + 600)


def test_an_idle_before_the_answer_does_not_close_the_entry() -> None:
    ledger = AbortLedger()
    ledger.open(1, NOW)

    ledger.idle()

    assert ledger.may_still_report(NOW)


@pytest.mark.parametrize("idle_first", [True, False], ids=["idle, answer", "answer, idle"])
def test_answer_and_idle_in_either_order_close_the_entry(*, idle_first: bool) -> None:
    ledger = AbortLedger()
    ledger.open(1, NOW)

    if idle_first:
        ledger.idle()
        ledger.answered(1, NOW)
    else:
        ledger.answered(1, NOW)
        ledger.idle()

    assert not ledger.may_still_report(NOW)


@pytest.mark.parametrize(
    ("later_s", "ours"), [(ABORT_GRACE_S - 0.001, True), (ABORT_GRACE_S, False), (3.0, False)]
)
def test_an_answered_abort_without_an_idle_expires(*, later_s: float, ours: bool) -> None:
    ledger = AbortLedger()
    ledger.open(1, NOW)

    ledger.answered(1, NOW)

    assert ledger.may_still_report(NOW + later_s) is ours


def test_a_message_of_an_aborted_attempt_may_say_so_at_any_later_time() -> None:
    ledger = AbortLedger()
    ledger.open(1, NOW)
    ledger.answered(1, NOW)
    ledger.idle()

    assert ledger.aborted(1)


def test_an_abort_of_one_attempt_does_not_explain_that_of_another() -> None:
    ledger = AbortLedger()

    ledger.open(1, NOW)

    assert not ledger.aborted(2)


def test_an_idle_does_not_close_an_abort_written_down_after_it() -> None:
    ledger = AbortLedger()
    ledger.idle()

    ledger.open(1, NOW)
    ledger.answered(1, NOW)

    assert ledger.may_still_report(NOW)


def test_one_open_abort_among_closed_ones_is_enough() -> None:
    ledger = AbortLedger()
    ledger.open(1, NOW)
    ledger.answered(1, NOW)
    ledger.idle()

    ledger.open(2, NOW)

    assert ledger.may_still_report(NOW)


def test_an_abort_the_host_refused_explains_nothing() -> None:
    ledger = AbortLedger()
    ledger.open(1, NOW)

    ledger.withdraw(1)

    assert not ledger.aborted(1)
    assert not ledger.may_still_report(NOW)


def test_an_answer_to_an_abort_that_was_withdrawn_is_harmless() -> None:
    ledger = AbortLedger()

    ledger.answered(1, NOW)
    ledger.withdraw(1)

    assert not ledger.aborted(1)


def test_a_new_turn_forgets_the_closed_aborts_of_earlier_attempts() -> None:
    ledger = AbortLedger()
    ledger.open(1, NOW)
    ledger.answered(1, NOW)
    ledger.idle()

    ledger.forget_before(2, NOW)

    assert not ledger.aborted(1)


def test_a_new_turn_keeps_an_earlier_abort_that_may_still_report() -> None:
    ledger = AbortLedger()
    ledger.open(1, NOW)
    ledger.answered(1, NOW)

    ledger.forget_before(2, NOW + 1)

    assert ledger.aborted(1)


def test_a_new_turn_keeps_its_own_aborts() -> None:
    ledger = AbortLedger()
    ledger.open(2, NOW)
    ledger.answered(2, NOW)
    ledger.idle()

    ledger.forget_before(2, NOW)

    assert ledger.aborted(2)
