"""History that a host copies into a new session, told apart from what happens in it.

OpenCode 1.18.33 publishes every message that a fork copies like a new one, right after ``session.created``. A
copy keeps its message's time, which is before the session's own.
"""

from collections import OrderedDict
from typing import Final

from fallback_plugin.events import (
    Event,
    MessagePartUpdated,
    MessageUpdated,
    SessionCreated,
    SessionDeleted,
    SessionStatus,
)

_REMEMBERED_SESSIONS: Final = 256


class _New:
    """A session in which nothing has run yet, with the copied messages that it began with."""

    def __init__(self, created_at: float) -> None:
        self.created_at: Final = created_at
        self.copied: Final[set[str]] = set()


def _ends_newness(event: Event) -> bool:
    return isinstance(event, SessionDeleted) or (isinstance(event, SessionStatus) and event.status != "idle")


class CopiedHistory:
    """Follows new sessions until something runs in them; the latest ones are remembered."""

    def __init__(self) -> None:
        self._new: Final[OrderedDict[str, _New]] = OrderedDict()

    def is_copy(self, event: Event) -> bool:
        """Take the host's next event in, and tell whether it shows a message or part that was copied."""
        session_id = event.session_id
        if isinstance(event, SessionCreated):
            self._begin(event)
        elif session_id is None or (session := self._new.get(session_id)) is None:
            return False
        elif isinstance(event, MessageUpdated):
            if event.message.created_at < session.created_at:
                session.copied.add(event.message.id)
            return event.message.id in session.copied
        elif isinstance(event, MessagePartUpdated):
            return event.part.message_id in session.copied
        elif _ends_newness(event):
            del self._new[session_id]
        return False

    def _begin(self, event: SessionCreated) -> None:
        if event.created_at is None:
            return
        self._new[event.session_id] = _New(event.created_at)
        if len(self._new) > _REMEMBERED_SESSIONS:
            self._new.popitem(last=False)
