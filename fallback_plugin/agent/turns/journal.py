"""A turn's journal whose writes are whole: a stop waits for the one under way, and never cuts it in two."""

from collections.abc import Sequence

from anyio import CancelScope

from fallback_plugin.agent.protocols import TurnJournal
from fallback_plugin.agent.records import Json, Outcome, Run


class WholeWrites:
    """Hands every call on, shielded. The lane's watchdog is what ends a write that hangs."""

    def __init__(self, journal: TurnJournal) -> None:
        self._journal = journal

    async def put_message(self, info: Json) -> None:
        """Add or replace a message's ``info``."""
        with CancelScope(shield=True):
            await self._journal.put_message(info)

    async def remove_message(self, message_id: str) -> None:
        """Take a message away."""
        with CancelScope(shield=True):
            await self._journal.remove_message(message_id)

    async def put_part(self, part: Json, *, durable: bool = True) -> None:
        """Add or replace a part."""
        with CancelScope(shield=True):
            await self._journal.put_part(part, durable=durable)

    async def append(self, part_id: str, field: str, delta: str) -> None:
        """Let a part's text grow."""
        with CancelScope(shield=True):
            await self._journal.append(part_id, field, delta)

    async def continue_in(self, session_id: str, opening: Sequence[Json]) -> Run:
        """Carry the run on in a new session."""
        with CancelScope(shield=True):
            run = await self._journal.continue_in(session_id, opening)
        return run  # noqa: RET504 -- a scope may end an exception, as far as types can tell

    async def finish(self, info: Json | None, outcome: Outcome, error: Json | None = None) -> None:
        """End the turn."""
        with CancelScope(shield=True):
            await self._journal.finish(info, outcome, error)
