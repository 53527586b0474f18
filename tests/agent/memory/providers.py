"""Memory providers that a test holds, lets fail and counts."""

from dataclasses import dataclass, field

import anyio

from fallback_plugin.agent.memory import MemoryLedger, SessionMemory
from fallback_plugin.agent.memory.store import SegmentsInMemory
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

    async def __call__(self, segment: MemorySegment) -> None:
        self.got.append(segment)
        if self.gate is not None:
            await self.gate.wait()
        if self.failures:
            self.failures -= 1
            raise OSError("the memory is full")

    async def close(self) -> None:
        self.closed += 1


class Memory:
    """A ledger with its store, its providers by key, and its clock."""

    def __init__(self, *providers: FakeProvider) -> None:
        by_key = {one.owner_key: one for one in providers}
        self.store = SegmentsInMemory()
        self.now = 0.0
        self.ledger = MemoryLedger(self.store, by_key.get, clock=lambda: self.now)

    async def marked(self, turns: int, owner_key: str | None = None, session_id: str = "s") -> None:
        for _ in range(turns):
            await self.ledger.mark_turn_completed(session_id, owner_key)

    def stored(self, session_id: str = "s") -> SessionMemory:
        return self.store.sessions.get(session_id, SessionMemory())
