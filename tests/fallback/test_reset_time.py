"""How long a provider wants to be left alone, read from its headers."""

import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, timezone
from email.utils import format_datetime

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from fallback_plugin.fallback.reset_time import SENSIBLE_S, capped, retry_after_s, sensible

NOW = datetime(2026, 11, 27, 12, 0, 0, tzinfo=UTC)
NOW_S = NOW.timestamp()


def wait(retry_after: str) -> float | None:
    return retry_after_s({"retry-after": retry_after}, NOW_S)


@pytest.fixture
def five_hours_west(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Move this process to another time zone."""
    with monkeypatch.context() as zone:
        zone.setenv("TZ", "EST5")
        time.tzset()
        yield
    time.tzset()


def test_without_a_header_the_wait_is_unknown() -> None:
    assert retry_after_s({}, NOW_S) is None


def test_other_headers_say_nothing() -> None:
    assert retry_after_s({"content-type": "application/json", "date": format_datetime(NOW)}, NOW_S) is None


@pytest.mark.parametrize(
    ("text", "expected"), [("5", 5), ("3600", 3600), ("0.25", 0.25), (" 7 ", 7), ("1e2", 100)]
)
def test_retry_after_counts_seconds(text: str, expected: float) -> None:
    assert wait(text) == expected


@pytest.mark.parametrize(("text", "expected"), [("1500", 1.5), ("250.5", 0.2505)])
def test_retry_after_ms_counts_milliseconds(text: str, expected: float) -> None:
    assert retry_after_s({"retry-after-ms": text}, NOW_S) == pytest.approx(expected)


def test_milliseconds_go_before_seconds() -> None:
    assert retry_after_s({"retry-after-ms": "1500", "retry-after": "2"}, NOW_S) == 1.5


def test_unreadable_milliseconds_leave_the_word_to_seconds() -> None:
    assert retry_after_s({"retry-after-ms": "soon", "retry-after": "2"}, NOW_S) == 2


def test_retry_after_may_be_a_date() -> None:
    assert wait("Fri, 27 Nov 2026 12:00:06 GMT") == 6


def test_a_date_is_read_in_its_own_zone() -> None:
    moment = (NOW + timedelta(seconds=90)).astimezone(timezone(timedelta(hours=-8)))

    assert wait(format_datetime(moment)) == 90


@pytest.mark.usefixtures("five_hours_west")
def test_a_date_whose_zone_is_unknown_counts_as_universal_time() -> None:
    assert wait("Fri, 27 Nov 2026 12:01:00 -0000") == 60


@pytest.mark.parametrize("text", ["Fri, 27 Nov 2026 11:59:59 GMT", "Thu, 01 Jan 1970 00:00:00 GMT"])
def test_a_date_in_the_past_is_no_wait(text: str) -> None:
    assert wait(text) is None


def test_this_very_moment_is_no_wait() -> None:
    assert wait(format_datetime(NOW, usegmt=False)) is None


@pytest.mark.parametrize("text", ["0", "0.0", "-0", "-1", "-3600"])
def test_nothing_and_less_than_nothing_are_no_wait(text: str) -> None:
    assert wait(text) is None


@pytest.mark.parametrize("text", ["nan", "inf", "-inf", "Infinity", "1e999"])
def test_a_number_that_is_no_number_of_seconds_is_ignored(text: str) -> None:
    assert wait(text) is None


@pytest.mark.parametrize("text", ["", " ", "soon", "0x10", "Fri", "Fri, 32 Nov 2026 12:00:00 GMT"])
def test_an_unreadable_header_is_ignored(text: str) -> None:
    assert wait(text) is None


@pytest.mark.parametrize("text", ["1e300", "Fri, 31 Dec 9999 23:59:59 GMT"])
def test_a_wait_beyond_a_year_is_nonsense(text: str) -> None:
    assert wait(text) is None


@pytest.mark.parametrize(
    ("told_s", "closed_s"), [(86_400, 86_400), (86_401, 86_400), (1_587_827, 86_400), (5, 5)]
)
def test_a_model_is_closed_for_a_day_at_most_whatever_is_told(told_s: float, closed_s: float) -> None:
    assert wait(str(told_s)) == told_s
    assert capped(told_s) == closed_s


@settings(deadline=None)
@given(st.text() | st.text(alphabet="0123456789 :,+-.eJanFebMonFriGMTZ"))
@example("Mon, 01 Jan 99999999999999999999 00:00:00 GMT")
@example("Mon, 01 Jan 2024 99999999999:00:00 GMT")
@example("Mon, 01 Jan 2024 00:00:00 +99999999999999999")
@example("Fri, 31 Dec 9999 23:59:59 -2359")
@example("Mon, 01 Jan 0001 00:00:00 +2359")
def test_any_header_gives_a_wait_within_bounds_or_none(text: str) -> None:
    for name in ("retry-after", "retry-after-ms"):
        found = retry_after_s({name: text}, NOW_S)

        assert found is None or 0 < found <= SENSIBLE_S


@settings(deadline=None)
@given(st.integers(1, 86_400))
def test_a_date_and_its_seconds_say_the_same(seconds: int) -> None:
    assert wait(format_datetime(NOW + timedelta(seconds=seconds))) == wait(str(seconds))


@settings(deadline=None)
@given(st.floats())
def test_a_wait_makes_sense_or_is_refused(wait_s: float) -> None:
    found = sensible(wait_s)

    assert found is None or 0 < found <= SENSIBLE_S
