"""When a failed model may be asked again, as the provider says: in fields, in headers, or in words.

Fields of a body go before headers, headers before words. All results are seconds from ``now``; what makes no
sense (past, not finite, more than a year ahead) counts as nothing. A date without a zone tells nothing, since
nobody knows whose clock it is. Nothing here raises; what is read is bounded by `evidence`.
"""

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from math import isfinite
from typing import Final

from fallback_plugin.fallback.evidence import Evidence, Field
from fallback_plugin.fallback.reset_words import duration_s, spoken_wait_s, stated_moments
from fallback_plugin.health.closure import MAX_WAIT_S

SENSIBLE_S: Final = 366 * 86_400.0
"""A hint further ahead is nonsense: the year 9999, milliseconds taken for seconds."""

SECONDS_FIELDS: Final = frozenset(
    {
        "resets_in_seconds",
        "reset_seconds",
        "reset_in_seconds",
        "retry_after_seconds",
        "retry_after",
        "retryafter",
    }
    | {
        "retry_after_sec",
        "wait_seconds",
        "resets_in",
        "reset_after_seconds",
        "resets_after_seconds",
        "cooldown_seconds",
    }
)
MILLISECONDS_FIELDS: Final = frozenset(
    {"retry_after_ms", "retryafterms", "reset_ms", "resets_in_ms", "retrydelayms"}
)
DURATION_FIELDS: Final = frozenset(
    {"retrydelay", "retry_delay", "quotaresetdelay", "reset_time", "reset_after", "resetsin"}
)
MOMENT_FIELDS: Final = frozenset(
    {
        "resets_at",
        "reset_at",
        "resetsat",
        "resetat",
        "reset_time",
        "resettime",
        "quotaresettimestamp",
        "reset_date",
    }
    | {"reset_timestamp", "next_reset", "nextresettime", "x-ratelimit-reset", "available_at", "retry_at"}
)

_EPOCH_FROM_S: Final = 1e9
_EPOCH_MS_FROM: Final = 1e12

_UNIFIED_HEADERS: Final = ("anthropic-ratelimit-unified-reset", "x-codex-primary-reset-after-seconds")
_BUCKET_HEADERS: Final = (
    ("x-ratelimit-remaining", "x-ratelimit-reset"),
    ("x-ratelimit-remaining-requests", "x-ratelimit-reset-requests"),
    ("x-ratelimit-remaining-tokens", "x-ratelimit-reset-tokens"),
    ("anthropic-ratelimit-requests-remaining", "anthropic-ratelimit-requests-reset"),
    ("anthropic-ratelimit-tokens-remaining", "anthropic-ratelimit-tokens-reset"),
    ("anthropic-ratelimit-input-tokens-remaining", "anthropic-ratelimit-input-tokens-reset"),
    ("anthropic-ratelimit-output-tokens-remaining", "anthropic-ratelimit-output-tokens-reset"),
    ("ratelimit-remaining", "ratelimit-reset"),
)


def told_wait_s(shown: Evidence, now: float) -> float | None:
    """Return how many seconds an error asks to be left alone, None if it does not say."""
    for wait in _told(shown, now):
        if wait is not None and (found := sensible(wait)) is not None:
            return found
    return None


def _told(shown: Evidence, now: float) -> Iterator[float | None]:
    yield from (_field_wait(each, now) for each in shown.fields)
    if shown.headers:
        yield retry_after_s(shown.headers, now)
        yield _header_wait(shown.headers, now)
    yield spoken_wait_s(shown.text)
    yield from (moment - now for moment in stated_moments(shown.text, now))


def _field_wait(field: Field, now: float) -> float | None:
    key, value = field.key, field.value
    number = value if isinstance(value, float) else _number(value)
    if key in MILLISECONDS_FIELDS:
        return number / 1000 if number is not None else None
    if key in SECONDS_FIELDS:
        return _seconds_or_moment(number, now) if number is not None else _duration_or_moment(value, now)
    if key in DURATION_FIELDS or key in MOMENT_FIELDS:
        if number is None:
            return _duration_or_moment(value, now)
        return _seconds_or_moment(number, now) if key in MOMENT_FIELDS else number
    return None


def _seconds_or_moment(number: float, now: float) -> float:
    """Take a number for what its size says: seconds to wait, or a moment in seconds or milliseconds."""
    if number >= _EPOCH_MS_FROM:
        return number / 1000 - now
    return number - now if number >= _EPOCH_FROM_S else number


def _duration_or_moment(value: str | float, now: float) -> float | None:
    if not isinstance(value, str):
        return None
    if (wait := duration_s(value)) is not None:
        return wait
    moment = _iso_moment(value)
    return moment - now if moment is not None else None


def _iso_moment(text: str) -> float | None:
    """Return a moment in ISO form, None without a zone."""
    try:
        moment = datetime.fromisoformat(text.strip())
        return moment.timestamp() if moment.tzinfo is not None else None
    except (ValueError, OverflowError):
        return None


def retry_after_s(headers: Mapping[str, str], now: float) -> float | None:
    """Read how many seconds to wait from response headers with lower-case names.

    ``retry-after-ms`` counts milliseconds; ``retry-after`` holds seconds, with or without a fraction, or an
    HTTP date (RFC 9110 section 10.2.3). A past, negative or unreadable value counts as none.
    """
    if (milliseconds := _number(headers.get("retry-after-ms"))) is not None:
        return sensible(milliseconds / 1000)
    text = headers.get("retry-after")
    if (seconds := _number(text)) is not None:
        return sensible(_seconds_or_moment(seconds, now))
    try:
        moment = parsedate_to_datetime(text or "")
        return sensible((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() - now)
    except (ValueError, OverflowError, TypeError):
        return sensible(_duration_or_moment(text or "", now) or 0.0)


def _header_wait(headers: Mapping[str, str], now: float) -> float | None:
    """Return the longest wait of the buckets that are known to be empty, or of the one for all of them."""
    waits = [_reset_header(headers.get(name), now) for name in _UNIFIED_HEADERS]
    for remaining, reset in _BUCKET_HEADERS:
        if _number(headers.get(remaining)) == 0:
            waits.append(_reset_header(headers.get(reset), now))
    return max((wait for wait in waits if wait is not None), default=None)


def _reset_header(text: str | None, now: float) -> float | None:
    if not text:
        return None
    number = _number(text)
    return _seconds_or_moment(number, now) if number is not None else _duration_or_moment(text, now)


def sensible(wait_s: float) -> float | None:
    """Return a wait, None if it makes no sense."""
    return wait_s if isfinite(wait_s) and 0 < wait_s <= SENSIBLE_S else None


def capped(wait_s: float) -> float:
    """Return a wait as long as a model is closed for it."""
    return min(wait_s, MAX_WAIT_S)


def _number(text: str | float | None) -> float | None:
    try:
        return float(text) if text not in (None, "") else None
    except ValueError:
        return None
