"""Writes down what was decided on a lane: who waits, what a cancel has ended, and when it is busy or idle."""

import logging
from collections.abc import Awaitable, Sequence

import anyio

from fallback_plugin.agent.dispatch.lane import Cancelled, Lane
from fallback_plugin.agent.dispatch.lane_table import LaneTable
from fallback_plugin.agent.dispatch.own_tasks import OwnTasks
from fallback_plugin.agent.dispatch.runs_under_way import RunsUnderWay
from fallback_plugin.agent.protocols import RunJournal
from fallback_plugin.agent.records import Run

logger = logging.getLogger(__name__)


class LaneJournal:
    """Hands decisions to the journal in the step in which they were made: both have the same order.

    What cannot be written is logged; a run whose end is missing is told of to those who wait for it.

    Args:
        journal: what is written down.
        lanes: the lanes.
        under_way: the runs that have not ended.
        tasks: where its tasks live.
    """

    def __init__(
        self, journal: RunJournal, lanes: LaneTable, under_way: RunsUnderWay, tasks: OwnTasks
    ) -> None:
        self._journal = journal
        self._lanes = lanes
        self._under_way = under_way
        self._tasks = tasks
        self._idle: dict[Lane, anyio.Event] = {}

    async def queued(self, lane: Lane, run: Run) -> None:
        """Note that a run waits."""
        await self._write("that a run waits", self._journal.queue(run))
        await self.busy(lane)

    async def cancelled(self, lane: Lane, runs: Sequence[Run]) -> Exception | None:
        """End runs that were cancelled before they began; return what was in the way."""
        return await self._ended(lane, runs, "a cancel", self._journal.cancel(runs))

    async def withdrawn(self, lane: Lane, run: Run) -> Exception | None:
        """End a run that a person has taken out of the queue; return what was in the way."""
        discard = self._journal.discard(run.id, waiting=True)
        return await self._ended(lane, [run], "a discard", discard)

    def dropped(self, lane: Lane, runs: Sequence[Run]) -> None:
        """End runs that a cancel took out of the queue, in a task."""
        if runs:
            self._tasks.start(self.cancelled, lane, runs)

    async def hit(self, lane: Lane, hit: Cancelled) -> Exception | None:
        """Write down what a person's cancel hit; return what was in the way."""
        if hit.active is not None:
            await self._write("a stop", self._journal.note_stop(hit.active))
        return await self.cancelled(lane, hit.dropped) if hit.dropped else None

    async def busy(self, lane: Lane) -> None:
        """Tell that a session is busy under each of its ids, once."""
        if ids := lane.claim_busy():
            await self._write("busy", self._journal.status(ids, "busy"))

    async def settle(self, lane: Lane) -> None:
        """Tell that a session became idle, if it did."""
        if ids := lane.claim_idle():
            await self._write("idle", self._journal.status(ids, "idle"))
        if lane.is_idle and lane in self._idle:
            self._idle.pop(lane).set()

    async def until_idle(self, lane: Lane) -> None:
        """Wait until a lane is idle. It is when this returns."""
        while not lane.is_idle:
            await self._idle.setdefault(lane, anyio.Event()).wait()

    async def _ended(
        self, lane: Lane, runs: Sequence[Run], what: str, call: Awaitable[object]
    ) -> Exception | None:
        """Write down the ends of runs that never began, and let go of who waits for them."""
        with self._lanes.keep(lane):
            error = await self._write(what, call)
            lane.ended(len(runs))
            for run in runs:
                self._under_way.end(run, error)
            await self.settle(lane)
        return error

    async def _write(self, what: str, call: Awaitable[object]) -> Exception | None:
        try:
            await call
        except Exception as error:
            logger.exception("%s cannot be written down", what)
            return error
        return None
