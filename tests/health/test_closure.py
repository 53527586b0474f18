"""The life of one record: open, closed, half-open, and what a failure or a success makes of it."""

from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fallback_plugin.health.closure import (
    FORGOTTEN_AFTER_S,
    MAX_WAIT_S,
    NEVER,
    Closure,
    Probe,
    closed,
    closed_until,
    given_back,
    half_open,
    joined,
    may_ask,
    probed,
    remembered,
    reopened,
)

NOW: Final = 1_800_000_000.0
HOUR: Final = 3600.0
RECORD: Final = Closure(NOW + 60, "quota", failures=2, closed_at=NOW)
AFTER: Final = NOW + 60


def failed(record: Closure | None, now: float, *, wait_s: float = 0.0, base_s: float = 60.0) -> Closure:
    after = closed(record, now + wait_s, reason="rate_limit", now=now, base_s=base_s)
    assert after is not None
    return after


def test_each_failure_in_a_row_closes_for_twice_as_long_up_to_a_day() -> None:
    record, now, waits = None, NOW, []
    for _ in range(14):
        record = failed(record, now)
        waits.append(record.until - now)
        now = record.until

    assert waits[:4] == [60, 120, 240, 480]
    assert waits[10:] == [61_440, MAX_WAIT_S, MAX_WAIT_S, MAX_WAIT_S]


def test_P6_the_growth_has_an_end_where_one_is_set() -> None:
    record, now, waits = None, NOW, []
    for _ in range(6):
        record = closed(record, now + 3, reason="rate_limit", now=now, base_s=3, grows_to_s=20)
        assert record is not None
        waits.append(record.until - now)
        now = record.until

    assert waits == [3, 6, 12, 20, 20, 20]


def test_a_hint_longer_than_the_growth_is_kept() -> None:
    """Complaint 86: hints cut to some minutes led to 233 probes in 22 hours."""
    assert failed(RECORD, AFTER, wait_s=20 * HOUR).until == AFTER + 20 * HOUR


@pytest.mark.parametrize("wait_s", [166 * HOUR, 1_587_827.0, 8000 * 365 * 24 * HOUR, float("inf")])
def test_no_hint_closes_for_longer_than_a_day(wait_s: float) -> None:
    """Complaint 84: a hint of 166 hours or 18 days closed a model for as long."""
    assert failed(None, NOW, wait_s=wait_s).until == NOW + MAX_WAIT_S
    assert failed(RECORD, NOW + 1, wait_s=wait_s).until == NOW + 1 + MAX_WAIT_S


def test_in_mid_closure_a_longer_hint_lengthens_and_counts_as_no_further_failure() -> None:
    assert failed(RECORD, NOW + 10, wait_s=HOUR) == Closure(NOW + 10 + HOUR, "rate_limit", 2, NOW + 10)


def test_in_mid_closure_a_shorter_hint_changes_nothing() -> None:
    assert closed(RECORD, NOW + 20, reason="rate_limit", now=NOW + 10, base_s=5) is RECORD


@pytest.mark.parametrize("wait_s", [0.0, -5.0, float("-inf")])
def test_a_time_that_is_over_closes_nothing(wait_s: float) -> None:
    assert closed(None, NOW + wait_s, reason="quota", now=NOW, base_s=0) is None
    assert closed(RECORD, AFTER + wait_s, reason="quota", now=AFTER, base_s=0) is RECORD


def test_until_its_time_a_key_is_closed_to_everybody_and_nobody_may_probe() -> None:
    assert closed_until(RECORD, AFTER - 0.1, "a") == AFTER
    assert probed(RECORD, "a", AFTER - 0.1, ttl_s=30) is RECORD
    assert not may_ask(RECORD, "a", AFTER - 0.1)
    assert not half_open(RECORD, AFTER - 0.1)


def test_a_half_open_key_lets_one_holder_through() -> None:
    assert half_open(RECORD, AFTER)
    assert closed_until(RECORD, AFTER, "a") == NEVER

    probing = probed(RECORD, "a", AFTER, ttl_s=30)
    assert probing is not None
    assert may_ask(probing, "a", AFTER)
    assert closed_until(probing, AFTER, "a") == NEVER

    assert probed(probing, "b", AFTER + 29, ttl_s=30) is probing
    assert not may_ask(probing, "b", AFTER + 29)
    assert closed_until(probing, AFTER + 29, "b") == AFTER + 30


def test_an_abandoned_probe_runs_out() -> None:
    probing = probed(RECORD, "a", AFTER, ttl_s=30)
    assert probing is not None
    assert closed_until(probing, AFTER + 30, "b") == NEVER

    second = probed(probing, "b", AFTER + 30, ttl_s=30)

    assert may_ask(second, "b", AFTER + 30)
    assert not may_ask(second, "a", AFTER + 30)


def test_a_probe_that_showed_nothing_is_given_back_by_its_holder_only() -> None:
    probing = probed(RECORD, "a", AFTER, ttl_s=30)

    assert given_back(probing, "b") is probing
    assert given_back(probing, "a") == RECORD


def test_a_failed_probe_closes_for_longer_and_ends() -> None:
    probing = probed(RECORD, "a", AFTER, ttl_s=30)

    assert failed(probing, AFTER + 5) == Closure(AFTER + 5 + 240, "rate_limit", 3, AFTER + 5)


def test_a_success_opens_what_was_closed_before_it_was_asked_for() -> None:
    assert reopened(RECORD, asked_at=NOW) is None
    assert reopened(RECORD, asked_at=NOW - 1) is RECORD
    assert reopened(None, asked_at=NOW) is None


def test_a_record_nobody_probes_is_forgotten_a_day_later_and_failures_count_from_one() -> None:
    long_after = AFTER + FORGOTTEN_AFTER_S

    assert remembered(RECORD, long_after - 0.1) is RECORD
    assert remembered(RECORD, long_after) is None
    assert not half_open(RECORD, long_after)
    assert probed(RECORD, "a", long_after, ttl_s=30) is None
    assert failed(RECORD, long_after).failures == 1


def test_of_two_records_the_longer_is_what_both_know() -> None:
    longer = Closure(NOW + 90, "auth", 1, NOW)

    assert joined(RECORD, longer) is joined(longer, RECORD) is longer
    assert joined(None, RECORD) is joined(RECORD, None) is RECORD
    assert joined(None, None) is None


def test_a_long_reason_is_cut() -> None:
    assert len(failed(closed(None, NOW + 1, reason="x" * 9999, now=NOW, base_s=0), NOW).reason) <= 200


TIMES = st.floats(-1e7, 1e7).map(lambda seconds: NOW + seconds)
RECORDS = st.none() | st.builds(
    Closure,
    until=TIMES,
    reason=st.text(max_size=5),
    failures=st.integers(1, 10_000),
    closed_at=TIMES,
    probe=st.none() | st.builds(Probe, st.sampled_from("ab"), TIMES),
)


@given(RECORDS, TIMES | st.just(float("inf")), TIMES, st.floats(0, 1e7))
def test_a_failure_never_shortens_a_closure_nor_closes_for_more_than_a_day(
    record: Closure | None, until: float, now: float, base_s: float
) -> None:
    after = closed(record, until, reason="quota", now=now, base_s=base_s)

    before_until = record.until if record else NEVER
    assert after is None or after.until <= max(before_until, now + MAX_WAIT_S)
    if record is not None and now < record.until:
        assert after is not None
        assert after.until >= record.until


@given(RECORDS, TIMES, st.sampled_from("abc"), st.sampled_from("abc"), st.floats(0.001, 1e4))
def test_never_may_two_holders_ask_at_once(
    record: Closure | None, now: float, one: str, other: str, ttl_s: float
) -> None:
    first = probed(record, one, now, ttl_s=ttl_s)
    second = probed(first, other, now, ttl_s=ttl_s)

    if first is not None and may_ask(first, one, now) and one != other:
        assert not may_ask(second, other, now)
