"""Which sessions run, by what was heard of them, and what was missed while nobody listened.

The host never sends an event twice. After each connection its list of running sessions is the only news of
what went on meanwhile, and plugins know no other form of it than events.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from fallback_plugin.events import SessionStatus
from fallback_plugin.wire.fields import Json, optional_object, text


class RunningSessions:
    """Follows the runs of one folder's sessions."""

    def __init__(self) -> None:
        self._running: set[str] = set()
        self._heard_of: set[str] | None = None

    def __contains__(self, session_id: object) -> bool:
        """Tell whether a session runs, as far as is known."""
        return session_id in self._running

    def __iter__(self) -> Iterator[str]:
        """Iterate over the sessions that run, as far as is known."""
        return iter(sorted(self._running))

    def __len__(self) -> int:
        """Return how many sessions run, as far as is known."""
        return len(self._running)

    def listen_anew(self) -> None:
        """Note that a new stream of events begins: until `missed`, what it tells is newer than any list."""
        self._heard_of = set()

    @property
    def heard_of(self) -> frozenset[str]:
        """The sessions that the new stream of events has told of, until what was missed has been told."""
        return frozenset(self._heard_of or ())

    def see(self, raw: Json) -> None:
        """Follow an event."""
        kind = raw.get("type")
        if kind not in {"session.status", "session.idle", "session.deleted"}:
            return
        properties = optional_object(raw, "properties") or {}
        session_id = text(properties, "sessionID") or text(optional_object(properties, "info") or {}, "id")
        if session_id is None:
            return
        if self._heard_of is not None:
            self._heard_of.add(session_id)
        status = optional_object(properties, "status") or {}
        if kind == "session.status" and status.get("type") != "idle":
            self._running.add(session_id)
        else:
            self._running.discard(session_id)

    def ended(self, running: Mapping[str, SessionStatus]) -> list[str]:
        """Return the sessions that ended unheard, given the host's list of those that run."""
        return sorted(self._running - running.keys() - (self._heard_of or set()))

    def went_on(self, running: Mapping[str, SessionStatus]) -> list[SessionStatus]:
        """Return how the sessions stand that run and were not heard of since the stream began."""
        heard_of = self._heard_of or set()
        return [status for session_id, status in running.items() if session_id not in heard_of]

    def caught_up(self) -> None:
        """Note that what was missed has been told."""
        self._heard_of = None


def status_event(status: SessionStatus) -> dict[str, Any]:
    """Write how a session stands as the event that the host would have sent."""
    written: dict[str, Any] = {"type": status.status}
    if status.status == "retry":
        written |= {"attempt": status.attempt, "message": status.message}
        if status.next_at is not None:
            written["next"] = round(status.next_at * 1000)
    return _event("session.status", sessionID=status.session_id, status=written)


def end_events(session_id: str) -> list[dict[str, Any]]:
    """Write a run's end as the events that the host would have sent."""
    return [
        _event("session.status", sessionID=session_id, status={"type": "idle"}),
        _event("session.idle", sessionID=session_id),
    ]


def turn_events(session_id: str, history: object) -> list[dict[str, Any]]:
    """Write the turn under way as the events that the host sends of it, given the session's stored history.

    A message behind the one that is being answered only waits, and comes last.
    """
    stored = [_Stored(raw) for raw in history if isinstance(raw, dict)] if isinstance(history, list) else []
    asked = [message for message in stored if message.role == "user"]
    if not asked:
        return []
    # Of the answer only the step at work: what became of earlier ones is settled.
    step = next((message for message in reversed(stored) if message.role == "assistant"), None)
    at_work = step.parent_id if step is not None and not step.completed else asked[-1].id
    under_way = next((message for message in asked if message.id == at_work), asked[-1])
    told = [under_way]
    if step is not None and step.parent_id == under_way.id:
        told.append(step)
    if under_way is not asked[-1]:
        told.append(asked[-1])
    return [event for message in told for event in message.events(session_id)]


class _Stored:
    """A message of a stored history."""

    def __init__(self, raw: Json) -> None:
        self._raw = raw
        self.info = optional_object(raw, "info") or {}
        self.id = text(self.info, "id")
        self.role = text(self.info, "role")
        self.parent_id = text(self.info, "parentID")
        self.completed = "completed" in (optional_object(self.info, "time") or {})

    def events(self, session_id: str) -> Iterator[dict[str, Any]]:
        yield _event("message.updated", sessionID=session_id, info=self.info)
        parts = self._raw.get("parts")
        for part in parts if isinstance(parts, list) else ():
            yield _event("message.part.updated", sessionID=session_id, part=part)


def _event(kind: str, **properties: object) -> dict[str, Any]:
    return {"type": kind, "properties": properties}
