"""The sessions whose memory provider is kept open: not too many, and none closed that still owes turns."""

from collections import OrderedDict
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Protocol

from fallback_plugin.agent.memory.ledger import MemoryLedger


class Handle(Protocol):
    """What a provider has open for a session, a database for example."""

    @property
    def owner_key(self) -> str:
        """The provider configuration it belongs to."""
        ...

    async def close(self) -> None:
        """Close it. Called once."""
        ...


class OpenSessions:
    """Handles by session, the least recently used first.

    What leaves is committed first, in a task of its own: others use their handles meanwhile.

    Args:
        ledger: what there is to commit.
        is_live: whether a run of a session is under way, which still uses its handle.
        start: starts a task; that of the `CommitWorker`.
        limit: how many sessions may be open.
    """

    def __init__(
        self,
        ledger: MemoryLedger,
        *,
        is_live: Callable[[str], bool],
        start: Callable[[Callable[[], Awaitable[object]]], object],
        limit: int,
    ) -> None:
        self._ledger = ledger
        self._start = start
        self._is_live = is_live
        self._limit = limit
        self._handles: OrderedDict[str, Handle] = OrderedDict()

    def __contains__(self, session_id: object) -> bool:
        """Tell whether a session is open."""
        return session_id in self._handles

    def get(self, session_id: str) -> Handle | None:
        """Return a session's handle, which is the most recently used one then."""
        if session_id in self._handles:
            self._handles.move_to_end(session_id)
        return self._handles.get(session_id)

    def open(self, session_id: str, handle: Handle) -> None:
        """Keep a session's handle; close the one it had before, and evict what is beyond the limit."""
        before = self._handles.get(session_id)
        self._handles[session_id] = handle
        self._handles.move_to_end(session_id)
        self._ledger.register(session_id, handle.owner_key)
        if before is not None and before is not handle:
            self._start(partial(self._close_replaced, session_id, before))
        idle = [name for name in self._handles if name != session_id and not self._is_live(name)]
        for victim in idle[: max(len(self._handles) - self._limit, 0)]:
            self._start(partial(self.evict, victim))

    async def evict(self, session_id: str) -> bool:
        """Commit a session's turns, then close its handle; False if it stays: live, or not committed."""
        handle = self._handles.get(session_id)
        if handle is None or self._is_live(session_id) or not await self._commit(session_id):
            return False
        if self._handles.get(session_id) is not handle or self._is_live(session_id):
            return False
        del self._handles[session_id]
        await self._ledger.discard(session_id)
        await handle.close()
        return True

    async def _close_replaced(self, session_id: str, handle: Handle) -> None:
        await self._commit(session_id)
        await handle.close()

    async def _commit(self, session_id: str) -> bool:
        while await self._ledger.has_uncommitted(session_id):
            if not await self._ledger.commit(session_id, wait=True):
                return False
        return True
