"""The ledger: which provider has to be told of which turns, one attempt a session at a time."""

import logging
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass, field
from functools import partial
from typing import TypeAlias

import anyio

from fallback_plugin.agent.memory.segments import Segment, SessionMemory
from fallback_plugin.agent.memory.store import SegmentStore
from fallback_plugin.hookspecs import MemorySegment

logger = logging.getLogger(__name__)

Provider: TypeAlias = Callable[[MemorySegment], Awaitable[None]]
"""Keeps a segment; it did unless it raises."""

FindProvider: TypeAlias = Callable[[str], Provider | None]
"""Returns the provider an owner key names, made anew if it has to be; None if there is none."""


@dataclass(slots=True, eq=False)
class _Attempt:
    """A commit under way; the session's id may change meanwhile."""

    session_id: str
    over: anyio.Event = field(default_factory=anyio.Event)


class MemoryLedger:
    """Marks are cheap and come with each completed turn; commits come at boundaries only.

    An owner key names a provider configuration. A segment is committed by the owner it was marked for, also
    when the session has another one since. Delivery is at least once, under a name that a provider can
    recognise. Never call `commit` under a lock of the session or the store: a provider takes its time.

    Args:
        store: where segments are kept.
        find_provider: how to reach a provider.
        clock: seconds since the epoch.
    """

    def __init__(
        self, store: SegmentStore, find_provider: FindProvider, *, clock: Callable[[], float]
    ) -> None:
        self._store = store
        self._find_provider = find_provider
        self._clock = clock
        self._owners: dict[str, str] = {}
        self._attempts: dict[str, _Attempt] = {}

    def register(self, session_id: str | None, owner_key: str) -> None:
        """Let an owner have the session's turns from now on."""
        if session_id:
            self._owners[session_id] = owner_key

    def unregister(self, session_id: str | None) -> None:
        """Let nobody have the session's turns from now on; segments keep their owners."""
        self._owners.pop(session_id or "", None)

    def owner(self, session_id: str) -> str | None:
        """Return who has the session's turns: what the end of a turn is marked with."""
        return self._owners.get(session_id)

    async def mark_turn_completed(self, session_id: str | None, owner_key: str | None = None) -> int:
        """Note a completed turn and return its number; ``owner_key`` becomes the session's owner.

        For turns whose end does not mark itself in its own transaction.
        """
        if not session_id:
            return 0
        if owner_key is not None:
            self.register(session_id, owner_key)
        owner = self.owner(session_id)
        return (await self._store.change(session_id, lambda memory: memory.marked(owner))).generation

    async def has_uncommitted(self, session_id: str | None, owners: Collection[str] | None = None) -> bool:
        """Tell whether there are turns to commit, or turns of some owners."""
        if not session_id:
            return False
        left = (await self._store.load(session_id)).segments
        return any(owners is None or segment.owner_key in owners for segment in left)

    async def commit(
        self,
        session_id: str | None,
        owner_key: str | None = None,
        *,
        wait: bool = False,
        timeout_s: float | None = None,
        unreached: set[str] | None = None,
    ) -> bool:
        """Commit one segment of the session; True if a provider has kept one.

        The first owner that can be reached gets its first segment: one that is gone keeps nobody waiting.

        Args:
            session_id: the session.
            owner_key: who is told if the segment has no owner; by default the session's.
            wait: whether to wait for an attempt under way, instead of answering False.
            timeout_s: how long to wait for it.
            unreached: owners to leave out; those whose segment was not kept are added.
        """
        if not session_id:
            return False
        unreached = set() if unreached is None else unreached
        session_id = await self._store.id_now(session_id)
        if wait:
            with anyio.move_on_after(timeout_s):
                await self.settled(session_id)
        if session_id in self._attempts:
            return False
        attempt = self._attempts[session_id] = _Attempt(session_id)
        try:
            owner_key = owner_key or self.owner(session_id)
            while (segment := await self._begun(attempt, owner_key, unreached)) is not None:
                if await self._carry_out(attempt, segment):
                    return True
                unreached.add(segment.owner_key or "")
            return False
        finally:
            del self._attempts[attempt.session_id]
            attempt.over.set()

    def is_committing(self, session_id: str) -> bool:
        """Tell whether an attempt is under way."""
        return session_id in self._attempts

    async def settled(self, session_id: str) -> None:
        """Wait until no attempt is under way."""
        while (under_way := self._attempts.get(session_id)) is not None:
            await under_way.over.wait()

    async def discard(self, session_id: str | None) -> bool:
        """Let go of a session; False if it is being committed or has turns to commit."""
        if not session_id or session_id in self._attempts or await self.has_uncommitted(session_id):
            return False
        self.unregister(session_id)
        await self._store.forget(session_id)
        return True

    def rotate(self, old_id: str, new_id: str) -> None:
        """Let the session that continues another have its owner, and the attempt that is under way."""
        if (owner := self._owners.pop(old_id, None)) is not None:
            self.register(new_id, owner)
        if (attempt := self._attempts.pop(old_id, None)) is not None:
            attempt.session_id = new_id
            self._attempts[new_id] = attempt

    async def recover(self) -> None:
        """Make due again what a restart cut off. To be called once, before anything is committed."""
        for session_id in await self._store.dirty():
            await self._store.change(session_id, SessionMemory.recovered)

    async def dirty(self) -> list[str]:
        """Return the sessions that have turns to commit."""
        return list(await self._store.dirty())

    async def due(self) -> dict[str, float]:
        """Return the sessions whose attempt failed and is to be repeated, and when."""
        found = {
            session_id: (await self._store.load(session_id)).due_at() for session_id in await self.dirty()
        }
        return {session_id: at for session_id, at in found.items() if at is not None}

    async def _begun(
        self, attempt: _Attempt, owner_key: str | None, unreached: Collection[str]
    ) -> Segment | None:
        """Let the next segment be in flight and return it, None if there is none."""
        session_id = attempt.session_id
        begun = await self._store.change(
            session_id, lambda memory: memory.begun(session_id, owner_key, unreached)
        )
        return begun.next_segment(owner_key, unreached)

    async def _carry_out(self, attempt: _Attempt, segment: Segment) -> bool:
        session_id = attempt.session_id
        trouble: str | None = "it was cut off"
        try:
            trouble = await self._tell(session_id, segment)
        finally:
            with anyio.CancelScope(shield=True):
                if trouble is None:
                    change = partial(SessionMemory.succeeded, start=segment.start, end=segment.end)
                else:
                    change = partial(
                        SessionMemory.failed, start=segment.start, error=trouble, now=self._clock()
                    )
                await self._store.change(attempt.session_id, change)
        return trouble is None

    async def _tell(self, session_id: str, segment: Segment) -> str | None:
        """Tell the segment's owner; return what went wrong."""
        owner_key, key = segment.owner_key or "", segment.commit_key or ""
        provider = self._find_provider(owner_key)
        if provider is None:
            return f"there is no memory provider {owner_key!r}"
        try:
            await provider(
                MemorySegment(
                    session_id=session_id, key=key, start=segment.start, end=segment.end, owner_key=owner_key
                )
            )
        except Exception as error:  # noqa: BLE001 -- a provider may raise anything
            logger.warning("memory segment %s was not kept: %s", key, error)
            return str(error) or type(error).__name__
        return None
