"""Writes that have to be made: repeated, in the order in which they came, until the store takes them."""

import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Final, TypeAlias, TypeVar

import anyio

from fallback_plugin.agent.dispatch.lane import Lane
from fallback_plugin.agent.dispatch.own_tasks import OwnTasks
from fallback_plugin.errors import StoreError

logger = logging.getLogger(__name__)

RETRY_AFTER_S: Final = 1.0
"""How long to wait between two attempts of a write, e.g. on a full disk."""

_Result = TypeVar("_Result")

OnStalled: TypeAlias = Callable[[Lane, StoreError], None]
"""Called once when a lane cannot go on because the store refuses its writes."""


@dataclass(slots=True, eq=False)
class _Stall:
    """The writes of one lane that wait: one is repeated, the others queue behind it."""

    error: StoreError
    turn: anyio.Lock = field(default_factory=anyio.Lock)
    waiting: int = 0


class StalledWrites:
    """Repeats writes of a lane while the store cannot take them; sessions with other lanes go on.

    Args:
        tasks: a stop of these ends the waiting.
        on_stalled: who is told when a lane begins to wait.
    """

    def __init__(self, tasks: OwnTasks, on_stalled: OnStalled) -> None:
        self._tasks = tasks
        self._on_stalled = on_stalled
        self._stalls: dict[Lane, _Stall] = {}

    def error(self, lane: Lane) -> StoreError | None:
        """Return why a lane's writes wait, None if they do not."""
        stall = self._stalls.get(lane)
        return None if stall is None else stall.error

    async def write(
        self,
        lane: Lane,
        write: Callable[[], Awaitable[_Result]],
        *,
        on_stall: Callable[[StoreError], None] | None = None,
    ) -> _Result:
        """Make a write and return its result.

        Without a stall the write begins in this very step. During one it waits behind the lane's earlier
        writes, so that their order stays.

        Args:
            lane: whose write it is.
            write: makes the write; called again for each attempt.
            on_stall: called with the reason when the write begins to wait.

        Raises:
            Exception: what ``write`` raises, unless the same write may succeed later; a stop of the host
                makes the next failed attempt the last.
        """
        if lane not in self._stalls:
            try:
                return await write()
            except StoreError as error:
                if not self._is_worth_waiting(error):
                    raise
                self._begin(lane, error)
        stall = self._stalls[lane]
        stall.waiting += 1
        try:
            if on_stall is not None:
                on_stall(stall.error)
            async with stall.turn:
                return await self._repeated(write)
        finally:
            stall.waiting -= 1
            if not stall.waiting:
                del self._stalls[lane]
                logger.info("session %s: its writes wait no longer", lane.ids[-1])

    async def _repeated(self, write: Callable[[], Awaitable[_Result]]) -> _Result:
        while True:
            try:
                return await write()
            except StoreError as error:
                if not self._is_worth_waiting(error):
                    raise
            await self._tasks.pause(RETRY_AFTER_S)

    def _is_worth_waiting(self, error: StoreError) -> bool:
        return error.may_pass and not self._tasks.is_stopping

    def _begin(self, lane: Lane, error: StoreError) -> None:
        if lane in self._stalls:  # another write of the lane failed in the meantime
            return
        told = StoreError(
            f"{error}. Session {lane.ids[-1]} waits, and goes on by itself once this is mended",
            status=error.status,
            may_pass=True,
        )
        self._stalls[lane] = _Stall(told)
        logger.error("%s", told)
        self._on_stalled(lane, told)
