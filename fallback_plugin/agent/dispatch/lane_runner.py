"""Carries the runs of each lane to their ends, one after the other."""

import logging
from collections.abc import Sequence
from functools import partial

import anyio

from fallback_plugin.agent.dispatch.active_entry import ActiveEntry
from fallback_plugin.agent.dispatch.execution import Execution
from fallback_plugin.agent.dispatch.lane import Lane, Reservation
from fallback_plugin.agent.dispatch.lane_journal import LaneJournal
from fallback_plugin.agent.dispatch.lane_table import LaneTable
from fallback_plugin.agent.dispatch.own_tasks import OwnTasks
from fallback_plugin.agent.dispatch.runs_under_way import RunsUnderWay
from fallback_plugin.agent.protocols import RunJournal, Turns
from fallback_plugin.agent.records import Json, Outcome, Run
from fallback_plugin.errors import AgentError, FencedError, StoreError

logger = logging.getLogger(__name__)


class LaneRunner:
    """Serves the lanes: a task for each that has something active, in a loop until nothing is left.

    Args:
        journal: how runs begin, join one another and end.
        decisions: what is written down of a lane.
        turns: what runs a turn.
        lanes: the lanes.
        under_way: the runs that have not ended.
        watchdog_s: how long a cancelled run may take to unwind.
        tasks: where its tasks live.
    """

    def __init__(
        self,
        journal: RunJournal,
        decisions: LaneJournal,
        turns: Turns,
        lanes: LaneTable,
        under_way: RunsUnderWay,
        *,
        watchdog_s: float,
        tasks: OwnTasks,
    ) -> None:
        self._journal = journal
        self._decisions = decisions
        self._turns = turns
        self._lanes = lanes
        self._under_way = under_way
        self._watchdog_s = watchdog_s
        self._tasks = tasks

    async def enter(self, run: Run, reservation: Reservation) -> None:
        """Decide in this very step what becomes of an accepted run; then write down what that ends."""
        lane = reservation.lane
        with self._lanes.keep(lane):
            self._lanes.alias(lane, run.session_id)  # it may have gone on under a new id meanwhile
            self._under_way.begin(run)
            match lane.enter(run, reservation):
                case "active":
                    self._tasks.start(self.serve, lane, lane.active)
                case "queued":
                    await self._decisions.queued(lane, run)
                case "cancelled":
                    await self._decisions.busy(lane)
                    await self._decisions.cancelled(lane, [run])

    async def serve(self, lane: Lane, entry: ActiveEntry | None) -> None:
        """Carry a lane's active run to its end, then the next one, until none is left; tell busy and idle."""
        with self._lanes.keep(lane):
            if entry is not None:
                await self._decisions.busy(lane)
            while entry is not None and entry.run is not None:
                await self._carry(lane, entry, entry.run)
                entry = self.hand_off(lane, entry)
            await self._decisions.settle(lane)

    def hand_off(self, lane: Lane, entry: ActiveEntry) -> ActiveEntry | None:
        """Return what follows ``entry`` on its lane; it is active and has to be served."""
        following, dropped = lane.hand_off(entry)
        self._decisions.dropped(lane, dropped)
        return following

    async def _carry(self, lane: Lane, entry: ActiveEntry, run: Run) -> None:
        """Begin a run, let its turn run and make sure that it has ended."""
        if not lane.is_closed:
            run = await self._prepared(run)
        if lane.is_closed:
            kept = f"the host is stopping: run {run.id} is kept until it starts again"
            self._under_way.end(run, AgentError(kept, status=503))
            return
        outcome: Outcome = "cancelled"
        error: Exception | None = None
        try:
            run = entry.run = await self._decisions.stored(lane, [run], partial(self._journal.activate, run))
        except Exception as refused:
            if isinstance(refused, StoreError) and refused.may_pass:
                self._under_way.end(run, refused)  # the host is stopping: it stays as it was accepted
                return
            logger.exception("run %s of session %s cannot begin", run.id, run.session_id)
            outcome, error = "failed", refused
        else:
            if not entry.is_cancelled:
                outcome, error = await self._run_turn(lane, entry, run)
        await self._end(lane, run, outcome, error)

    async def _prepared(self, run: Run) -> Run:
        try:
            return await self._turns.prepare(run)
        except Exception:
            logger.exception("run %s begins as it was accepted", run.id)
            return run

    async def _run_turn(self, lane: Lane, entry: ActiveEntry, run: Run) -> tuple[Outcome, Exception | None]:
        """Run a turn; return how the run has to end if the turn has not ended it."""
        execution = Execution(
            partial(self._turns.run, run, partial(self._join_steering, lane, entry)),
            watchdog_s=self._watchdog_s,
            on_cancel=partial(self._cancel_children, run),
        )
        entry.execution = execution
        unwound, error = await execution.carry_out(self._tasks), execution.error
        if not unwound:
            logger.error(
                "run %s of session %s did not stop when it was cancelled, and is taken off its lane",
                run.id,
                run.session_id,
            )
        elif error is not None:
            logger.error("the turn of run %s raised", run.id, exc_info=error)
        return ("cancelled" if entry.is_cancelled else "failed"), error

    async def _end(self, lane: Lane, run: Run, outcome: Outcome, error: Exception | None) -> None:
        """End a run unless its turn has, whether it could begin or not."""
        end = partial(self._journal.end, run, outcome, _error_of(outcome, error))
        try:
            ended = await self._decisions.stored(lane, [run], end)
        except Exception as refused:
            logger.exception("the end of run %s cannot be written", run.id)
            error = refused
        else:
            if ended:
                logger.info("run %s was ended as %s for its turn", run.id, outcome)
            if ended or run.writer is not None:
                error = None
        self._cancel_children(run)
        self._under_way.end(run, error)

    def _cancel_children(self, run: Run) -> None:
        """Cancel whatever there is in the child sessions of a run."""
        for session_id in self._under_way.children(run):
            lane = self._lanes.find(session_id)
            if lane is not None:
                self._decisions.dropped(lane, lane.cancel().dropped)

    async def _join_steering(self, lane: Lane, entry: ActiveEntry) -> Sequence[Run]:
        """Make the prompts that steer part of the active turn: its step takes them in."""
        if lane.active is not entry or entry.run is None:
            raise FencedError("a run that was taken off its lane takes no further prompts")
        joining, dropped = lane.take_steering()
        self._decisions.dropped(lane, dropped)
        if not joining:
            return ()
        runs = [run for run, _ in joining]
        with self._lanes.keep(lane), anyio.CancelScope(shield=True):
            try:
                await self._journal.fold(runs, entry.run)
            except Exception:
                for run, reservation in joining:
                    await self.enter(run, reservation)
                raise
            for run, reservation in joining:
                reservation.close()
                self._under_way.fold(run, entry.run)
        return runs


def _error_of(outcome: Outcome, error: Exception | None) -> Json | None:
    """Return OpenCode's error object for a run that its turn did not end."""
    if outcome != "failed":
        return None
    if isinstance(error, StoreError):
        message = f"The host could not store this answer: {error}"
    elif isinstance(error, AgentError):
        message = str(error)
    else:
        message = "The turn broke off: the log has the reason."
    return {"name": "UnknownError", "data": {"message": message}}
