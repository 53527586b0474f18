"""Which events are mere progress of a stream, and how two of them become one."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from fallback_plugin.events import Event, MessagePartDelta, MessagePartUpdated

_GROWING: Final = frozenset({"text", "reasoning"})


def is_streaming(event: Event) -> bool:
    """Return whether a later event of the same part makes this one unnecessary.

    True for text deltas, and for the state of a text that is still growing: it has a start, no end and some
    content. The empty stub that announces a part, its final state, tools and what a person wrote (texts
    without a time) are state-bearing.
    """
    if isinstance(event, MessagePartDelta):
        return True
    if not isinstance(event, MessagePartUpdated):
        return False
    part = event.part
    time = part.raw.get("time")
    return part.type in _GROWING and bool(part.text) and isinstance(time, Mapping) and time.get("end") is None


def stream_key(raw: Mapping[str, Any], event: Event) -> tuple[object, ...]:
    """Return what two streaming events must share to be one: their kind, the part and its growing field."""
    part_id = event.part_id if isinstance(event, MessagePartDelta) else None
    if isinstance(event, MessagePartUpdated):
        part_id = event.part.id
    properties = raw.get("properties")
    field = properties.get("field") if isinstance(properties, Mapping) else None
    return type(event), part_id, field


def text_size(event: Event) -> int:
    """Return how many characters of streamed text an event carries."""
    match event:
        case MessagePartDelta():
            return len(event.delta)
        case MessagePartUpdated():
            return len(event.part.text or "")
        case _:
            return 0


def with_delta(
    raw: Mapping[str, Any], event: MessagePartDelta, text: str
) -> tuple[Mapping[str, Any], MessagePartDelta]:
    """Return a delta, as the host sent it and normalised, that carries ``text`` instead of its own."""
    properties = raw.get("properties")
    if isinstance(properties, Mapping) and "delta" in properties:
        raw = {**raw, "properties": {**properties, "delta": text}}
    return raw, replace(event, delta=text)
