"""The ledger's segments in the host's own store, where the end of a turn marks it in its transaction."""

from collections.abc import Callable, Sequence

from fallback_plugin.agent.memory.segments import SessionMemory
from fallback_plugin.agent.store import Store, Transaction, segments


class StoredSegments:
    """`SegmentStore` over the store."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def load(self, session_id: str) -> SessionMemory:
        """Return what there is of a session."""
        return await self._store.read(lambda rows: segments.load(rows, session_id))

    async def change(
        self, session_id: str, change: Callable[[SessionMemory], SessionMemory]
    ) -> SessionMemory:
        """Apply a change in one transaction."""

        def work(tx: Transaction) -> SessionMemory:
            changed = change(segments.load(tx.rows, session_id))
            segments.save(tx.rows, session_id, changed)
            return changed

        return await self._store.write(work)

    async def dirty(self) -> Sequence[str]:
        """Return the sessions that have segments."""
        return await self._store.read(segments.sessions_with_segments)

    async def move(self, old_id: str, new_id: str) -> None:
        """Do nothing: the transaction that lets a session go on under a new id moves its segments."""

    async def forget(self, session_id: str) -> None:
        """Do nothing: a session without segments keeps its count of turns."""
