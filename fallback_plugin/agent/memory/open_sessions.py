"""The sessions whose memory is kept open: not too many, and none closed that still owes turns."""

import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial

import anyio

from fallback_plugin.agent.memory.ledger import MemoryLedger
from fallback_plugin.hookspecs import NOTIFY_DEADLINE_S, OpenMemory
from fallback_plugin.plugins.invocation import attempt

logger = logging.getLogger(__name__)


@dataclass(slots=True, eq=False)
class _Open:
    """A session's handle, and those it took the place of while turns were still to be committed to them.

    ``is_in_question``: settings changed, another handle may be due.
    """

    current: OpenMemory
    former: list[OpenMemory] = field(default_factory=list)
    is_in_question: bool = False


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
        self._sessions: OrderedDict[str, _Open] = OrderedDict()

    def __contains__(self, session_id: object) -> bool:
        """Tell whether a session is open."""
        return session_id in self._sessions

    def __len__(self) -> int:
        """Return how many sessions are open."""
        return len(self._sessions)

    def get(self, session_id: str) -> OpenMemory | None:
        """Return a session's handle, the most recently used one then; None if another may be due."""
        found = self._sessions.get(session_id)
        if found is None or found.is_in_question:
            return None
        self._sessions.move_to_end(session_id)
        return found.current

    def find(self, session_id: str, owner_key: str | None) -> OpenMemory | None:
        """Return the handle that turns were marked for, also if the session has another one since.

        None stands for whichever the session has.
        """
        if (found := self._sessions.get(session_id)) is None:
            return None
        if owner_key is None:
            return found.current
        return next((one for one in (found.current, *found.former) if one.owner_key == owner_key), None)

    def open(self, session_id: str, handle: OpenMemory) -> None:
        """Keep a session's handle; close the one it had before, and evict what is beyond the limit."""
        found = self._sessions.setdefault(session_id, _Open(handle))
        self._sessions.move_to_end(session_id)
        found.is_in_question = False
        self._ledger.register(session_id, handle.owner_key)
        if found.current is not handle:
            found.former.append(found.current)
            found.current = handle
            self._start(partial(self._close_former, session_id))
        idle = [name for name in self._sessions if name != session_id and not self._is_live(name)]
        for victim in idle[: max(len(self._sessions) - self._limit, 0)]:
            self._start(partial(self.evict, victim))

    def question(self) -> None:
        """Let the next turn of each session find out whether its handle is still the right one."""
        for found in self._sessions.values():
            found.is_in_question = True

    def rotate(self, old_id: str, new_id: str) -> None:
        """Let the session that continues another have what is open of it."""
        if (found := self._sessions.pop(old_id, None)) is not None:
            self._sessions[new_id] = found

    async def evict(self, session_id: str) -> bool:
        """Commit a session's turns, then close its handle; False if it stays: live, or not committed."""
        found = self._sessions.get(session_id)
        if found is None or self._is_live(session_id) or not await self._commit(session_id, found):
            return False
        is_used = self._is_live(session_id) or self._ledger.is_committing(session_id)
        if is_used or self._sessions.get(session_id) is not found:
            return False
        del self._sessions[session_id]
        await self._ledger.discard(session_id)
        await close(found.current, *found.former)
        return True

    async def close(self) -> None:
        """Close all there is, committed or not: the turns that are left are stored, and come again."""
        async with anyio.create_task_group() as tasks:
            while self._sessions:
                tasks.start_soon(self._close_at_the_end, *self._sessions.popitem())

    async def _close_at_the_end(self, session_id: str, found: _Open) -> None:
        await self._ledger.settled(session_id)
        await close(found.current, *found.former)

    async def _close_former(self, session_id: str) -> None:
        """Close the handles that were replaced, unless turns that are theirs cannot be committed."""
        found = self._sessions.get(session_id)
        if found is not None and await self._commit(session_id, found):
            former, found.former = found.former, []
            await close(*former)

    async def _commit(self, session_id: str, found: _Open) -> bool:
        """Commit a session's turns; False if some are left for which a handle of it is open.

        Those of an owner that is gone are left as well, but keep no handle open: none would take them.
        """
        await self._ledger.settled(session_id)
        unreached: set[str] = set()
        while await self._ledger.has_uncommitted(session_id):
            if not await self._ledger.commit(session_id, wait=True, unreached=unreached):
                owners = {handle.owner_key for handle in (found.current, *found.former)}
                return not await self._ledger.has_uncommitted(session_id, owners)
        return True


async def close(*handles: OpenMemory) -> None:
    """Close what plugins have open, whatever they do then."""
    for handle in handles:
        outcome = await attempt(handle.close, deadline_s=NOTIFY_DEADLINE_S)
        if outcome.error is not None:
            logger.error("memory %r could not be closed: %r", handle.owner_key, outcome.error)
