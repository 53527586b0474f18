"""A recorded stretch of a host's events, as a file: one JSON object a line."""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from fallback_plugin.errors import TraceError, WireError
from fallback_plugin.events import Event
from fallback_plugin.wire.event import read_event

EXPECTED: Final = (
    'write {"t": seconds, "event": {"type": …, "properties": …}} or '
    '{"trace": name, "t_ms": milliseconds, "type": …, "properties": …}'
)
LATEST_S: Final = 1e11
"""Times past this, in seconds, are no times: it is the year 5138."""


@dataclass(frozen=True, slots=True)
class Moment:
    """One event of the recording ``trace``; ``at`` is its time there, in seconds."""

    trace: str
    at: float
    event: Event


def read_trace(lines: Iterable[str]) -> Iterator[Moment]:
    """Read a recording: ``{t, event}`` a line, in seconds, or ``{trace, t_ms, type, properties}``.

    What a recorder did itself (``client``, ``note``, ``provider``) is passed over, and so is an event that a
    running host could not hand on either.

    Raises:
        TraceError: with the line's number, if a line is nothing of that.
    """
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            moment = _moment(_json(line), number)
        except ValueError as error:
            raise TraceError(f"line {number}: {error}") from None
        if moment is not None:
            yield moment


def _json(line: str) -> object:
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        raise ValueError("this is no JSON; a recording has one object a line") from None


def _moment(source: Any, number: int) -> Moment | None:  # noqa: ANN401 -- any JSON
    match source:
        case {"event": {"payload": {"type": str()} as raw}}:  # a stream of all folders wraps its events
            pass
        case {"event": {"type": str()} as raw} | ({"type": str(), "properties": {}} as raw):
            pass
        case {"client": _} | {"note": _} | {"provider": _}:
            return None
        case _:
            raise ValueError(f"this is no event of a host; {EXPECTED}")
    at = _time_s(source)
    if raw["type"] == "sync" or raw["type"].startswith("HOOK"):
        return None
    try:
        return Moment(str(source.get("trace", "")), at, read_event(raw, sequence=number))
    except (WireError, OverflowError):
        return None


def _time_s(source: Mapping[str, Any]) -> float:
    key, per_s = ("t_ms", 1000) if "t_ms" in source else ("t", 1)
    at = source.get(key, 0)
    if not isinstance(at, int | float) or not abs(at) < LATEST_S:
        raise ValueError(f'the time "{key}" is no number')
    return at / per_s
