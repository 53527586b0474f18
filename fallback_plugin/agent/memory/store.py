"""Where the ledger's segments are kept."""

from collections.abc import Callable, Sequence
from typing import Protocol

from fallback_plugin.agent.memory.segments import SessionMemory


class SegmentStore(Protocol):
    """Durable segments. The transaction that ends a completed turn applies `SessionMemory.marked` itself."""

    async def load(self, session_id: str) -> SessionMemory:
        """Return what there is of a session; an empty one if nothing."""
        ...

    async def change(
        self, session_id: str, change: Callable[[SessionMemory], SessionMemory]
    ) -> SessionMemory:
        """Apply a change in one transaction and return what is stored then."""
        ...

    async def dirty(self) -> Sequence[str]:
        """Return the sessions that have segments."""
        ...

    async def move(self, old_id: str, new_id: str) -> None:
        """Let a session's turns and segments be another's, which continues it."""
        ...

    async def forget(self, session_id: str) -> None:
        """Let go of what is kept for a session without segments."""
        ...


class SegmentsInMemory:
    """Keeps segments for the life of this object."""

    def __init__(self) -> None:
        self.sessions: dict[str, SessionMemory] = {}

    async def load(self, session_id: str) -> SessionMemory:
        """Return what there is of a session."""
        return self.sessions.get(session_id, SessionMemory())

    async def change(
        self, session_id: str, change: Callable[[SessionMemory], SessionMemory]
    ) -> SessionMemory:
        """Apply a change."""
        changed = change(await self.load(session_id))
        if changed != SessionMemory():
            self.sessions[session_id] = changed
        return changed

    async def dirty(self) -> Sequence[str]:
        """Return the sessions that have segments."""
        return [session_id for session_id, memory in self.sessions.items() if not memory.is_clean]

    async def move(self, old_id: str, new_id: str) -> None:
        """Let a session's segments be another's."""
        if old_id in self.sessions:
            self.sessions[new_id] = self.sessions.pop(old_id)

    async def forget(self, session_id: str) -> None:
        """Let go of a session."""
        self.sessions.pop(session_id, None)
