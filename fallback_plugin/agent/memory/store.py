"""Where the ledger's segments are kept."""

from collections.abc import Callable, Sequence
from typing import Protocol

from fallback_plugin.agent.memory.segments import SessionMemory


class SegmentStore(Protocol):
    """Durable segments. A session is found under each of its ids.

    The transaction that ends a completed turn applies `SessionMemory.marked` itself, and the one that lets a
    session go on under a new id moves its segments.
    """

    async def id_now(self, session_id: str) -> str:
        """Return the id under which a session goes on; the same if there is no other."""
        ...

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

    async def forget(self, session_id: str) -> None:
        """Let go of what is kept for a session without segments."""
        ...
