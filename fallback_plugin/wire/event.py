"""Events: ``{id, type, properties}``, one object each."""

from collections.abc import Callable
from typing import Any, Final, cast

from fallback_plugin import events
from fallback_plugin.errors import WireError
from fallback_plugin.events import Event
from fallback_plugin.wire.error import read_error
from fallback_plugin.wire.fields import (
    Json,
    integer,
    optional_object,
    required_object,
    required_text,
    seconds,
    text,
)
from fallback_plugin.wire.message import read_message, read_part

COPIED: Final = "copied"
"""The key by which our own host says that an event shows history copied into a fork, and no activity."""

RUN_STATUSES: Final = frozenset({"busy", "idle", "retry"})

_Fields = dict[str, Any]


def read_event(raw: Json, *, sequence: int | None = None) -> Event:
    """Read one event. A type or status this package does not know comes back as a bare `Event`.

    So do an error that belongs to no session, and history that was copied.

    Raises:
        WireError: if there is no type, or a known type lacks a field it always has.
    """
    kind = required_text(raw, "type")
    properties = optional_object(raw, "properties") or {}
    common: _Fields = {"type": kind, "sequence": sequence}
    reader = _READERS.get(kind)
    session_id = _session_id(properties)
    is_copy = properties.get(COPIED) is True
    if reader is None or is_copy or (kind == "session.error" and session_id is None):
        return Event(session_id=session_id, **common)
    if session_id is None:
        raise WireError(f"an event of type {kind!r} names no session")
    return reader(properties, {"session_id": session_id, **common})


def _session_id(properties: Json) -> str | None:
    if found := text(properties, "sessionID"):
        return found
    info = optional_object(properties, "info") or {}
    part = optional_object(properties, "part") or {}
    return text(info, "sessionID") or text(part, "sessionID") or text(info, "id")


def _created(properties: Json, common: _Fields) -> Event:
    info = optional_object(properties, "info") or {}
    time = optional_object(info, "time") or {}
    return events.SessionCreated(
        parent_id=text(info, "parentID"), created_at=seconds(time, "created"), **common
    )


def _deleted(_: Json, common: _Fields) -> Event:
    return events.SessionDeleted(**common)


def _status(properties: Json, common: _Fields) -> Event:
    status = required_object(properties, "status")
    word = required_text(status, "type")
    if word not in RUN_STATUSES:
        return Event(**common)
    return events.SessionStatus(
        status=cast("Any", word),
        attempt=integer(status, "attempt") or 0,
        message=text(status, "message") or "",
        next_at=seconds(status, "next"),
        **common,
    )


def _idle(_: Json, common: _Fields) -> Event:
    return events.SessionIdle(**common)


def _abort_requested(_: Json, common: _Fields) -> Event:
    return events.SessionAbortRequested(**common)


def _model_requested(properties: Json, common: _Fields) -> Event:
    return events.ModelRequested(message_id=required_text(properties, "messageID"), **common)


def _error(properties: Json, common: _Fields) -> Event:
    return events.SessionError(error=read_error(properties.get("error")), **common)


def _compacted(_: Json, common: _Fields) -> Event:
    return events.SessionCompacted(**common)


def _message_updated(properties: Json, common: _Fields) -> Event:
    return events.MessageUpdated(message=read_message(required_object(properties, "info")), **common)


def _message_removed(properties: Json, common: _Fields) -> Event:
    return events.MessageRemoved(message_id=required_text(properties, "messageID"), **common)


def _part_updated(properties: Json, common: _Fields) -> Event:
    return events.MessagePartUpdated(part=read_part(required_object(properties, "part")), **common)


def _part_delta(properties: Json, common: _Fields) -> Event:
    return events.MessagePartDelta(
        message_id=required_text(properties, "messageID"),
        part_id=required_text(properties, "partID"),
        delta=text(properties, "delta") or "",
        **common,
    )


_READERS: Final[dict[str, Callable[[Json, _Fields], Event]]] = {
    "session.created": _created,
    "session.deleted": _deleted,
    "session.status": _status,
    "session.idle": _idle,
    "session.abort.requested": _abort_requested,
    "model.requested": _model_requested,
    "session.error": _error,
    "session.compacted": _compacted,
    "message.updated": _message_updated,
    "message.removed": _message_removed,
    "message.part.updated": _part_updated,
    "message.part.delta": _part_delta,
}
