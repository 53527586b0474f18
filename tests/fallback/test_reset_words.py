"""Waits and moments in prose: which words make a number a wait, and whose clock a time is of."""

from datetime import UTC, datetime
from typing import Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fallback_plugin.fallback.classify import classify
from fallback_plugin.fallback.reset_time import SENSIBLE_S
from fallback_plugin.fallback.reset_words import UNITS, duration_s, spoken_wait_s, stated_moments
from tests.fallback.failures import api_error

NOW: Final = datetime(2026, 8, 20, 10, 0, tzinfo=UTC).timestamp()
MINUTE, HOUR, DAY = 60.0, 3600.0, 86_400.0


@pytest.mark.parametrize(
    ("text", "wait_s"),
    [
        ("please try again in 915ms.", 0.915),
        ("please try again in 9m38.016s.", 578.016),
        ("try again in 5 days 22 hours 11 minutes.", 5 * DAY + 22 * HOUR + 11 * MINUTE),
        ("try again in ~4293 min.", 4293 * MINUTE),
        ("reset after 19h 24m 10s)", 19 * HOUR + 24 * MINUTE + 10),
        ("your quota will reset after 166h9m16s.", 166 * HOUR + 9 * MINUTE + 16),
        ("resets in 19hr", 19 * HOUR),
        ("resets in 12 days.", 12 * DAY),
        ("it will reset in 4hr 59min", 4 * HOUR + 59 * MINUTE),
        ("please wait 23 seconds before trying again", 23),
        ("retrying in ~2 weeks", 14 * DAY),
        ("retry after 1.5 seconds", 1.5),
        ("available again in 1 hour, 5 minutes and 3 seconds", HOUR + 5 * MINUTE + 3),
        ("请在 30 秒后重试", 30),
        ("5分钟后重试", 5 * MINUTE),
        ("将在 2 小时后恢复", 2 * HOUR),
        ("3時間後に再試行してください", 3 * HOUR),
        ("10분 후 다시 시도", 10 * MINUTE),
        ("versuchen sie es in 5 minuten erneut", 5 * MINUTE),
        ("réessayez dans 2 heures", 2 * HOUR),
        ("inténtelo de nuevo en 45 segundos", 45),
    ],
)
def test_a_wait_is_read_in_every_form(text: str, wait_s: float) -> None:
    assert spoken_wait_s(text) == pytest.approx(wait_s)


@pytest.mark.parametrize(
    "text",
    [
        "5-hour limit reached",
        "usage limit reached for 5 hour",
        "已达到 5 小时的使用上限",
        "limit 200000, used 198000, requested 5000",
        "500 tokens per minute",
        "try again later",
        "in 5 minimal steps",
        "wait for the 3 dogs",
        "",
    ],
)
def test_a_number_without_the_words_for_a_wait_is_none(text: str) -> None:
    assert spoken_wait_s(text) is None


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("resets 6am (asia/seoul)", "2026-08-20T21:00:00+00:00"),
        ("resets 8pm (asia/seoul)", "2026-08-20T11:00:00+00:00"),
        ("resets 2:10pm (america/sao_paulo)", "2026-08-20T17:10:00+00:00"),
        ("resets at 15:33 utc", "2026-08-20T15:33:00+00:00"),
        ("resets 9am (utc)", "2026-08-21T09:00:00+00:00"),
        ("will reset at 08-27 15:33:00 utc.", "2026-08-27T15:33:00+00:00"),
        ("will reset at 01-02 00:00 utc", "2027-01-02T00:00:00+00:00"),
        ("reset at 2026-08-25t07:41:44z", "2026-08-25T07:41:44+00:00"),
        ("reset at 2026-08-25 07:41:44 +0800", "2026-08-24T23:41:44+00:00"),
        ("reset at 2026-08-25 07:41:44+08:00", "2026-08-24T23:41:44+00:00"),
        ("resets aug 22, 2pm (europe/berlin)", "2026-08-22T12:00:00+00:00"),
        ("limit to reset on april 20, 2027 at 2:00 am utc", "2027-04-20T02:00:00+00:00"),
        ("usage limit reached|1787230000", "2026-08-20T12:46:40+00:00"),
        ("it resets at 1787230000000", "2026-08-20T12:46:40+00:00"),
    ],
)
def test_a_moment_with_a_zone_is_read(text: str, moment: str) -> None:
    assert datetime.fromisoformat(moment).timestamp() in list(stated_moments(text, NOW))


@pytest.mark.parametrize(
    "text",
    [
        "your limit will reset at 2026-08-25 07:41:44",
        "您的限额将在 2026-08-25 07:41:44 重置。",
        "limit to reset on april 20, 2026 at 2:00 am",
        "resets 6am",
        "resets 6am (middle/earth)",
        "resets 25:00 utc",
        "resets 13pm (utc)",
        "reset at 2026-02-31 10:00 utc",
        "build of 2026-08-25t07:41:44z",
    ],
)
def test_a_time_of_nobodys_clock_is_none(text: str) -> None:
    assert list(stated_moments(text, NOW)) == []


@pytest.mark.parametrize(
    ("text", "wait_s"),
    [("1976.365s", 1976.365), ("156h0m34s", 561_634), ("160h20m10s", 577_210), ("4hr 59min", 17_940)],
)
def test_a_field_that_is_a_duration_is_read(text: str, wait_s: float) -> None:
    assert duration_s(text) == pytest.approx(wait_s)


@pytest.mark.parametrize("text", ["", "soon", "5", "5 apples", "3s later", "s"])
def test_a_field_that_is_none_is_not(text: str) -> None:
    assert duration_s(text) is None


@pytest.mark.parametrize(
    ("body", "wait_s"),
    [
        ({"error": {"resets_in_seconds": 13872}}, 13_872),
        ({"error": {"resets_at": NOW + 600}}, 600),
        ({"error": {"resets_at": (NOW + 600) * 1000}}, 600),
        ({"error": {"resets_at": "2026-08-20T10:10:00Z"}}, 600),
        ({"error": {"resets_at": "2026-08-20T10:10:00"}}, None),
        ({"error": {"resets_at": "9999-12-31T00:00:00Z"}}, None),
        ({"error": {"resets_at": NOW - 600}}, None),
        ({"error": {"retry_after": -5}}, None),
        ({"error": {"retry_after_ms": 1500}}, 1.5),
        ({"error": {"details": [{"@type": "google.rpc.RetryInfo", "retryDelay": "23.5s"}]}}, 23.5),
        ({"error": {"details": [{"metadata": {"quotaResetDelay": "1h0m5s"}}]}}, 3605),
        ({"error": {"reset_seconds": 10, "reset_time": "156h0m34s"}}, 10),
        ({"error": {"resets_in_seconds": "inf"}}, None),
    ],
)
def test_a_field_of_the_body_tells_the_wait(body: object, wait_s: float | None) -> None:
    assert classify(api_error("usage limit", 429, body), NOW).retry_after_s == pytest.approx(wait_s)


def test_a_field_goes_before_a_header_and_that_before_words() -> None:
    body = {"error": {"resets_in_seconds": 10}}
    words = "try again in 30s"
    assert classify(api_error(words, 429, body, retry_after="20"), NOW).retry_after_s == 10
    assert classify(api_error(words, 429, None, retry_after="20"), NOW).retry_after_s == 20
    assert classify(api_error(words, 429), NOW).retry_after_s == 30


@pytest.mark.parametrize(
    ("headers", "wait_s"),
    [
        ({"x_ratelimit_remaining_tokens": "0", "x_ratelimit_reset_tokens": "6m0s"}, 360),
        ({"x_ratelimit_remaining_tokens": "7", "x_ratelimit_reset_tokens": "6m0s"}, None),
        ({"x_ratelimit_remaining": "0", "x_ratelimit_reset": str((NOW + 60) * 1000)}, 60),
        ({"anthropic_ratelimit_unified_reset": str(NOW + 900)}, 900),
        (
            {
                "anthropic_ratelimit_requests_remaining": "0",
                "anthropic_ratelimit_requests_reset": "2026-08-20T10:00:30Z",
            },
            30,
        ),
        ({"retry_after": "5 minutes"}, 300),
    ],
)
def test_a_providers_own_header_tells_when_its_empty_bucket_is_full(
    headers: dict[str, str], wait_s: float | None
) -> None:
    assert classify(api_error("limited", 429, None, **headers), NOW).retry_after_s == pytest.approx(wait_s)


PIECES: Final = st.sampled_from(
    [
        "reset",
        "in ",
        "after ",
        "~",
        "5",
        "h",
        "m",
        "s",
        " ",
        ":",
        "-",
        "(",
        ")",
        "asia/seoul",
        "utc",
        "pm",
        "2026",
        "08",
        "jan ",
        "1787230000",
        "|",
        "后",
        "秒",
        "and ",
    ]
)


@settings(deadline=None)
@given(st.lists(PIECES, max_size=60).map("".join) | st.text())
def test_any_text_gives_a_sensible_wait_or_none(text: str) -> None:
    found = classify(api_error(text, 429), NOW).retry_after_s
    assert found is None or 0 < found <= SENSIBLE_S


@settings(deadline=None)
@given(st.integers(1, 999), st.sampled_from(sorted(UNITS)), st.sampled_from(["", " "]))
def test_a_wait_means_what_its_unit_says(number: int, unit: str, space: str) -> None:
    text = f"try again in {number}{space}{unit}"
    assert spoken_wait_s(text) == pytest.approx(number * UNITS[unit])
