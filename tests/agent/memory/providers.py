"""Memory providers that a test holds, lets fail and counts."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import anyio

from fallback_plugin.agent.memory import MemoryLedger, SessionMemory
from fallback_plugin.agent.memory.ledger import Provider
from fallback_plugin.hookspecs import MemorySegment


@dataclass(slots=True)
class FakeProvider:
    """Keeps what it is told; ``failures`` times not; ``gate`` holds it, ``closed`` counts closings."""

    owner_key: str = "A"
    failures: int = 0
    gate: anyio.Event | None = None
    got: list[MemorySegment] = field(default_factory=list)
    closed: int = 0

    @property
    def calls(self) -> int:
        return len(self.got)

    async def commit(self, segment: MemorySegment) -> None:
        self.got.append(segment)
        if self.gate is not None:
            await self.gate.wait()
        if self.failures:
            self.failures -= 1
            raise OSError("the memory is full")

    async def close(self) -> None:
        self.closed += 1


class SegmentsInMemory:
    """Keeps segments for the life of this object."""

    def __init__(self) -> None:
        self.sessions: dict[str, SessionMemory] = {}

    async def id_now(self, session_id: str) -> str:
        return session_id

    async def load(self, session_id: str) -> SessionMemory:
        return self.sessions.get(session_id, SessionMemory())

    async def change(
        self, session_id: str, change: Callable[[SessionMemory], SessionMemory]
    ) -> SessionMemory:
        changed = change(await self.load(session_id))
        if changed != SessionMemory():
            self.sessions[session_id] = changed
        return changed

    async def dirty(self) -> Sequence[str]:
        return [session_id for session_id, memory in self.sessions.items() if not memory.is_clean]

    def move(self, old_id: str, new_id: str) -> None:
        if old_id in self.sessions:
            self.sessions[new_id] = self.sessions.pop(old_id)

    async def forget(self, session_id: str) -> None:
        self.sessions.pop(session_id, None)


class Memory:
    """A ledger with its store, its providers by key, and its clock."""

    def __init__(self, *providers: FakeProvider) -> None:
        by_key = {one.owner_key: one for one in providers}
        self.store = SegmentsInMemory()
        self.now = 0.0

        def find(owner_key: str) -> Provider | None:
            return by_key[owner_key].commit if owner_key in by_key else None

        self.ledger = MemoryLedger(self.store, find, clock=lambda: self.now)

    async def marked(self, turns: int, owner_key: str | None = None, session_id: str = "s") -> None:
        for _ in range(turns):
            await self.ledger.mark_turn_completed(session_id, owner_key)

    def rotate(self, old_id: str, new_id: str) -> None:
        """Let a session go on under a new id, as a transaction and what follows it do."""
        self.store.move(old_id, new_id)
        self.ledger.rotate(old_id, new_id)

    def stored(self, session_id: str = "s") -> SessionMemory:
        return self.store.sessions.get(session_id, SessionMemory())
