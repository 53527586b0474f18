"""A turn's journal whose writes are whole: a stop waits for the one under way, and never cuts it in two."""

from collections.abc import Awaitable, Sequence
from typing import Final, TypeVar

import anyio

from fallback_plugin.agent.protocols import TurnJournal
from fallback_plugin.agent.records import Json, Outcome, Run
from fallback_plugin.errors import StoreError

WRITE_S: Final = 30.0
"""How long one write may take; the lane's watchdog has taken a stopped run away before."""

ResultT = TypeVar("ResultT")


class WholeWrites:
    """Hands every call on, shielded for so long."""

    def __init__(self, journal: TurnJournal) -> None:
        self._journal = journal

    async def put_message(self, info: Json) -> None:
        """Add or replace a message's ``info``."""
        await _whole(self._journal.put_message(info))

    async def remove_message(self, message_id: str) -> None:
        """Take a message away."""
        await _whole(self._journal.remove_message(message_id))

    async def put_part(self, part: Json, *, durable: bool = True) -> None:
        """Add or replace a part."""
        await _whole(self._journal.put_part(part, durable=durable))

    async def append(self, part_id: str, field: str, delta: str) -> None:
        """Let a part's text grow."""
        await _whole(self._journal.append(part_id, field, delta))

    async def continue_in(self, session_id: str, opening: Sequence[Json]) -> Run:
        """Carry the run on in a new session."""
        return await _whole(self._journal.continue_in(session_id, opening))

    async def finish(self, info: Json | None, outcome: Outcome, error: Json | None = None) -> None:
        """End the turn."""
        await _whole(self._journal.finish(info, outcome, error))


async def _whole(write: Awaitable[ResultT]) -> ResultT:
    try:
        with anyio.fail_after(WRITE_S, shield=True):
            return await write
    except TimeoutError as error:
        raise StoreError(f"the store has not answered within {WRITE_S:g} s: look at its disk") from error
