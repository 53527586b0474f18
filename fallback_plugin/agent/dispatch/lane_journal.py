"""Writes down what was decided on a lane: who waits, what a cancel has ended, and when it is busy or idle."""

import logging
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import TypeVar

import anyio

from fallback_plugin.agent.dispatch.lane import Cancelled, Lane
from fallback_plugin.agent.dispatch.lane_table import LaneTable
from fallback_plugin.agent.dispatch.own_tasks import OwnTasks
from fallback_plugin.agent.dispatch.reply import Reply
from fallback_plugin.agent.dispatch.runs_under_way import RunsUnderWay
from fallback_plugin.agent.dispatch.stalled_writes import OnStalled, StalledWrites
from fallback_plugin.agent.protocols import RunJournal, StatusWord
from fallback_plugin.agent.records import Run
from fallback_plugin.errors import StoreError

logger = logging.getLogger(__name__)

_Result = TypeVar("_Result")


class LaneJournal:
    """Hands decisions to the journal in the step in which they were made: both have the same order.

    What the store cannot take for now, such as an end on a full disk, is repeated until it does; those who
    wait for such a run are told at once. What cannot be written at all is logged, and told to them as well.

    Args:
        journal: what is written down.
        lanes: the lanes.
        under_way: the runs that have not ended.
        tasks: where its tasks live.
        on_stalled: who is told when a lane has to wait for the store.
    """

    def __init__(
        self,
        journal: RunJournal,
        lanes: LaneTable,
        under_way: RunsUnderWay,
        tasks: OwnTasks,
        on_stalled: OnStalled,
    ) -> None:
        self._journal = journal
        self._lanes = lanes
        self._under_way = under_way
        self._tasks = tasks
        self._tell_stalled = on_stalled
        self._stalled = StalledWrites(tasks, self._on_stalled)
        self._looking: dict[Lane, anyio.Event] = {}

    async def stored(
        self,
        lane: Lane,
        runs: Sequence[Run],
        write: Callable[[], Awaitable[_Result]],
        *,
        on_stall: Callable[[StoreError], None] | None = None,
    ) -> _Result:
        """Make a write of some runs, and repeat it while the store cannot take it.

        Raises:
            Exception: what ``write`` raises, unless it may succeed later.
        """

        def stalled(error: StoreError) -> None:
            for run in runs:
                self._under_way.stall(run, error)
            if on_stall is not None:
                on_stall(error)

        try:
            return await self._stalled.write(lane, write, on_stall=stalled)
        finally:
            for run in runs:
                self._under_way.go_on(run)

    async def queued(self, lane: Lane, run: Run) -> None:
        """Note that a run waits."""
        await _attempted("that a run waits", partial(self._journal.queue, run))
        await self.busy(lane)

    async def cancelled(
        self, lane: Lane, runs: Sequence[Run], *, on_stall: Callable[[StoreError], None] | None = None
    ) -> Exception | None:
        """End runs that were cancelled before they began; return what was in the way."""
        return await self._ended(lane, runs, "a cancel", partial(self._journal.cancel, runs), on_stall)

    async def withdrawn(self, lane: Lane, run: Run, reply: Reply[None]) -> None:
        """End a run that a person has taken out of the queue; the reply says whether that is stored."""
        discard = partial(self._journal.discard, run.id, waiting=True)
        _answer(reply, await self._ended(lane, [run], "a discard", discard, reply.fail))

    def dropped(self, lane: Lane, runs: Sequence[Run]) -> None:
        """End runs that a cancel took out of the queue, in a task."""
        if runs:
            self._tasks.start(self.cancelled, lane, runs)

    async def hit(self, lane: Lane, hit: Cancelled, reply: Reply[None]) -> None:
        """Write down what a person's cancel hit; the reply says whether that is stored."""
        if hit.active is not None:
            await _attempted("a stop", partial(self._journal.note_stop, hit.active))
        error = await self.cancelled(lane, hit.dropped, on_stall=reply.fail) if hit.dropped else None
        _answer(reply, error)

    async def busy(self, lane: Lane) -> None:
        """Tell that a session is busy under each of its ids, once."""

        async def tell() -> None:
            await self._tell(lane.claim_busy(), "busy", lane.unclaim_busy)

        await _attempted("busy", partial(self._stalled.write, lane, tell))

    async def settle(self, lane: Lane) -> None:
        """Tell that a session became idle, if it did."""

        async def tell() -> None:
            await self._tell(lane.claim_idle(), "idle", lane.unclaim_idle)

        if lane.is_idle:
            await _attempted("idle", partial(self._stalled.write, lane, tell))
        if lane.is_idle:
            self._look_again(lane)

    async def until_idle(self, lane: Lane, *, unless_stalled: bool = False) -> None:
        """Wait until a lane is idle. It is when this returns.

        Raises:
            StoreError: if ``unless_stalled``, and the lane waits for the store.
        """
        while not lane.is_idle:
            if unless_stalled and (error := self._stalled.error(lane)) is not None:
                raise error
            await self._looking.setdefault(lane, anyio.Event()).wait()

    async def _tell(self, ids: list[str], status: StatusWord, unclaim: Callable[[list[str]], None]) -> None:
        if not ids:
            return
        try:
            await self._journal.status(ids, status)
        except BaseException:
            unclaim(ids)
            raise

    async def _ended(
        self,
        lane: Lane,
        runs: Sequence[Run],
        what: str,
        write: Callable[[], Awaitable[object]],
        on_stall: Callable[[StoreError], None] | None,
    ) -> Exception | None:
        """Write down the ends of runs that never began, and let go of who waits for them."""
        with self._lanes.keep(lane):
            error = await _attempted(what, partial(self.stored, lane, runs, write, on_stall=on_stall))
            lane.ended(len(runs))
            for run in runs:
                self._under_way.end(run, error)
            await self.settle(lane)
        return error

    def _on_stalled(self, lane: Lane, error: StoreError) -> None:
        self._tell_stalled(lane, error)
        self._look_again(lane)

    def _look_again(self, lane: Lane) -> None:
        """Let those who wait for an idle lane look at it."""
        if (looking := self._looking.pop(lane, None)) is not None:
            looking.set()


async def _attempted(what: str, write: Callable[[], Awaitable[object]]) -> Exception | None:
    """Make a write; log and return what was in the way."""
    try:
        await write()
    except Exception as error:
        logger.exception("%s cannot be written down", what)
        return error
    return None


def _answer(reply: Reply[None], error: Exception | None) -> None:
    if error is None:
        reply.give(None)
    else:
        reply.fail(error)
