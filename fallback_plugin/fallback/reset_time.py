"""When a failed model may be asked again, as the provider says."""

from collections.abc import Mapping
from datetime import UTC
from email.utils import parsedate_to_datetime
from math import isfinite
from typing import Final

MAX_WAIT_S: Final = 24 * 3600.0
"""No hint closes a model for longer; reports of week-long hints that were wrong are common."""


def retry_after_s(headers: Mapping[str, str], now: float) -> float | None:
    """Read how many seconds to wait from response headers with lower-case names.

    ``retry-after-ms`` counts milliseconds; ``retry-after`` holds seconds, with or without a fraction, or an
    HTTP date (RFC 9110 section 10.2.3). A past, negative or unreadable value counts as none.
    """
    if (milliseconds := _number(headers.get("retry-after-ms"))) is not None:
        return capped(milliseconds / 1000)
    text = headers.get("retry-after")
    if (seconds := _number(text)) is not None:
        return capped(seconds)
    try:
        moment = parsedate_to_datetime(text or "")
    except (ValueError, OverflowError):
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return capped(moment.timestamp() - now)


def capped(wait_s: float) -> float | None:
    """Return a wait within bounds, None if it makes no sense."""
    if not isfinite(wait_s) or wait_s <= 0:
        return None
    return min(wait_s, MAX_WAIT_S)


def _number(text: str | None) -> float | None:
    try:
        return float(text) if text else None
    except ValueError:
        return None
