"""Durations as people write them: ``"90s"``, ``"1h30m"``, or a number of seconds."""

import math
import re
from typing import Final

MAX_DURATION_S: Final = 31 * 86400.0
"""The longest duration accepted; a longer one is a slip of the pen. No provider's limit outlasts a month."""

DURATION_PATTERN: Final = r"^(\d+(\.\d+)?(ms|s|m|h|d))+$"
"""What a duration string looks like (without spaces), for the JSON schema."""

_SECONDS_PER_UNIT: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_PIECE: Final = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|m|h|d)\s*", re.ASCII)
_HOW: Final = 'write "90s", "5m", "1h30m" or a number of seconds'


def duration_s(value: object) -> float:
    """Return a duration in seconds.

    Raises:
        ValueError: if ``value`` is neither a finite number from 0 to `MAX_DURATION_S` nor a string of
            amounts with units (``ms``, ``s``, ``m``, ``h``, ``d``) that adds up to one.
    """
    if isinstance(value, str):
        seconds = _seconds_in_text(value.strip().lower())
    elif isinstance(value, int | float) and not isinstance(value, bool):
        # Compared before conversion: an integer may be too large for a float.
        seconds = math.inf if value > MAX_DURATION_S else -1.0 if value < 0 else float(value)
    else:
        seconds = math.nan
    if math.isnan(seconds):
        raise ValueError(f"{value!r} is not a duration; {_HOW}")
    if seconds < 0:
        raise ValueError(f"{value!r} is negative; {_HOW}")
    if seconds > MAX_DURATION_S:
        raise ValueError(f"{value!r} is longer than 31 days; {_HOW}")
    return seconds


def _seconds_in_text(text: str) -> float:
    total, at = 0.0, 0
    while piece := _PIECE.match(text, at):
        total += float(piece[1]) * _SECONDS_PER_UNIT[piece[2]]
        at = piece.end()
    return total if text and at == len(text) else math.nan
