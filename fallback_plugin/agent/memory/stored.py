"""The ledger's segments in the host's own store, where the end of a turn marks it in its transaction."""

from collections.abc import Callable, Sequence

from fallback_plugin.agent.memory.segments import SessionMemory
from fallback_plugin.agent.store import Rows, Store, Transaction, segments, sessions


class StoredSegments:
    """`SegmentStore` over the store. A session is found under each of its ids, whatever it was known by."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def id_now(self, session_id: str) -> str:
        """Return the id under which a session goes on."""
        return await self._store.read(lambda rows: _id_now(rows, session_id))

    async def load(self, session_id: str) -> SessionMemory:
        """Return what there is of a session."""
        return await self._store.read(lambda rows: segments.load(rows, _id_now(rows, session_id)))

    async def change(
        self, session_id: str, change: Callable[[SessionMemory], SessionMemory]
    ) -> SessionMemory:
        """Apply a change in one transaction."""

        def work(tx: Transaction) -> SessionMemory:
            id_now = _id_now(tx.rows, session_id)
            changed = change(segments.load(tx.rows, id_now))
            segments.save(tx.rows, id_now, changed)
            return changed

        return await self._store.write(work)

    async def dirty(self) -> Sequence[str]:
        """Return the sessions that have segments."""
        return await self._store.read(segments.sessions_with_segments)

    async def forget(self, session_id: str) -> None:
        """Do nothing: a session without segments keeps its count of turns."""


def _id_now(rows: Rows, session_id: str) -> str:
    known = sessions.find(rows, session_id)
    return session_id if known is None else sessions.latest(rows, session_id).id
