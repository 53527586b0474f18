"""The dispatcher: accepts prompts, runs each session's one after the other, and cancels exactly."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from typing import Final

import anyio
from anyio import TASK_STATUS_IGNORED
from anyio.abc import TaskStatus
from anyio.from_thread import BlockingPortal

from fallback_plugin.agent.dispatch.accept_sequence import AcceptSequence
from fallback_plugin.agent.dispatch.isolation import Isolation
from fallback_plugin.agent.dispatch.lane import Cancelled, CancelMode, Lane, LaneStatus, Reservation
from fallback_plugin.agent.dispatch.lane_journal import LaneJournal
from fallback_plugin.agent.dispatch.lane_runner import LaneRunner
from fallback_plugin.agent.dispatch.lane_table import LaneTable
from fallback_plugin.agent.dispatch.own_tasks import OwnTasks
from fallback_plugin.agent.dispatch.reply import Reply
from fallback_plugin.agent.dispatch.runs_under_way import RunsUnderWay
from fallback_plugin.agent.protocols import Accepted, RunJournal, Turns
from fallback_plugin.agent.records import Run, UserPrompt
from fallback_plugin.errors import FencedError, StoreError

WATCHDOG_S: Final = 10.0
"""How long a cancelled run may take to unwind before its lane goes on without it."""

DECIDED_WITHIN_S: Final = 2.0
"""How long a cancel waits for what is just being accepted, to return its words; it counts in any case."""

STOP_MARGIN_S: Final = 5.0
"""How long a stop may take beyond the watchdog, for what is still being written."""


class Dispatcher:
    """Runs the prompts of each session one after the other; sessions run side by side.

    Keep `run` running; use everything else from its event loop's thread; other threads use
    `DispatcherFromThreads`. What is asked for here is the dispatcher's own work: it goes on when the one who
    asked is cancelled.

    Attributes:
        isolation: gives a session to one operation that is no run.

    Args:
        journal: where everything is written down.
        turns: what runs a turn.
        last_sequence: the greatest number of an acceptance in the store.
        watchdog_s: how long a cancelled run may take to unwind.
        on_stalled: called with a session's id and the reason when its runs begin to wait because the store
            cannot be written; they go on by themselves.
    """

    def __init__(
        self,
        journal: RunJournal,
        turns: Turns,
        *,
        last_sequence: int = 0,
        watchdog_s: float = WATCHDOG_S,
        on_stalled: Callable[[str, StoreError], None] | None = None,
    ) -> None:
        self._journal = journal
        self._watchdog_s = watchdog_s
        self._lanes = LaneTable(AcceptSequence(last_sequence), journal.ids_of)
        self._under_way = RunsUnderWay()
        self._tasks = OwnTasks()
        self._on_stalled = on_stalled
        self._decisions = LaneJournal(journal, self._lanes, self._under_way, self._tasks, self._tell_stalled)
        self._runner = LaneRunner(
            journal,
            self._decisions,
            turns,
            self._lanes,
            self._under_way,
            watchdog_s=watchdog_s,
            tasks=self._tasks,
        )
        self.isolation = Isolation(self._lanes, self._decisions, self._runner, self._tasks)

    @property
    def portal(self) -> BlockingPortal:
        """What calls into its event loop from other threads. Raises `AgentError` if it does not run."""
        return self._tasks.portal

    async def run(self, *, task_status: TaskStatus[None] = TASK_STATUS_IGNORED) -> None:
        """Serve until `stop` or cancellation; after either, what is active gets its time to unwind."""
        await self._tasks.run(self._lanes.close, task_status=task_status)

    async def stop(self) -> bool:
        """Accept nothing more, cancel what is active, and wait until it has unwound.

        What was accepted and has not begun stays in the journal as it is. Returns False if something has not
        unwound in the watchdog's time; its run has ended all the same, and `run` goes on waiting for it.
        """
        self._tasks.request_stop()
        with anyio.move_on_after(self._watchdog_s + STOP_MARGIN_S):
            await self._tasks.until_ended()
        return self._tasks.has_ended

    def status(self, session_id: str) -> LaneStatus:
        """Return what a session's lane holds."""
        lane = self._lanes.find(session_id)
        return LaneStatus() if lane is None else lane.status

    def busy_sessions(self) -> dict[str, LaneStatus]:
        """Return the sessions that are busy, under each of their ids."""
        return {name: lane.status for lane in self._lanes if not lane.is_idle for name in lane.ids}

    def queued(self, session_id: str) -> tuple[Run, ...]:
        """Return the runs that wait in a session, the next one first."""
        lane = self._lanes.find(session_id)
        return () if lane is None else tuple(waiting.run for waiting in lane.queue)

    async def accept(self, session_id: str, prompt: UserPrompt, *, parent: Run | None = None) -> Accepted:
        """Keep a prompt and run it when its turn comes; returns as soon as it is on stable storage.

        Args:
            session_id: whose prompt it is.
            prompt: the prompt.
            parent: the active run on whose behalf a child session is prompted. When that is cancelled or
                ends, everything in the child session is cancelled.

        Raises:
            AgentError: if there is no such session, it is being deleted, the disk refuses, or the host stops.
            FencedError: if the parent has ended or was cancelled.
        """
        async with self._reserved(session_id) as reservation:
            if parent is not None:
                self._add_child(parent, session_id)
            write = partial(self._journal.accept, session_id, prompt, reservation.sequence)
            reply: Reply[Accepted] = Reply()
            self._tasks.start(self._accept, reservation, write, reply)
        return await reply.get()

    async def send(self, session_id: str, run_id: str) -> Run:
        """Accept a held run of a session anew.

        Raises:
            AgentError: with status 409 if the run is not held, and as `accept` does.
        """

        async def write() -> Accepted:
            return Accepted(await self._journal.send(run_id, reservation.sequence), is_new=True)

        async with self._reserved(session_id) as reservation:
            reply: Reply[Accepted] = Reply()
            self._tasks.start(self._accept, reservation, write, reply)
        return (await reply.get()).run

    async def resume(self, run: Run) -> None:
        """Let a run take its turn that an earlier start of the host has accepted, and that never began."""

        async def found() -> Accepted:
            return Accepted(run, is_new=True)

        async with self._reserved(run.session_id) as reservation:
            reply: Reply[Accepted] = Reply()
            self._tasks.start(self._accept, reservation, found, reply)
        await reply.get()

    async def discard(self, session_id: str, run_id: str) -> None:
        """End a run of a session that waits, or is held, without a turn.

        Raises:
            AgentError: with status 409 if it is neither.
        """
        self._tasks.check_open()
        lane = self._lanes.find(session_id)
        waiting = None if lane is None else lane.withdraw(run_id)
        if lane is None or waiting is None:
            await self._tasks.ask(partial(self._journal.discard, run_id))
            return
        reply: Reply[None] = Reply()
        self._tasks.start(self._decisions.withdrawn, lane, waiting, reply)
        await reply.get()

    async def wait(self, run_id: str) -> None:
        """Wait until a run has its terminal event, and the run it was folded into; at once if it is unknown.

        Raises:
            AgentError: if the host stops before the run began, or the run cannot go on now because the
                store refuses a write (`StoreError`); it is kept then, and goes on when that is mended.
        """
        await self._under_way.wait(run_id)

    async def cancel(self, session_id: str, mode: CancelMode = "all") -> Cancelled:
        """Cancel what there is in a session; an idle one does not change.

        Returns when this is on stable storage, with what was just being accepted among the dropped runs; what
        is active unwinds after that.

        Raises:
            StoreError: if it cannot be stored now. It counts all the same, and is stored later.
        """
        lane = self._lanes.find(session_id)
        if lane is None:
            return Cancelled()
        hit = lane.cancel(mode)
        if hit.active is not None or hit.dropped:
            reply: Reply[None] = Reply()
            self._tasks.start(self._decisions.hit, lane, hit, reply)
            await reply.get()
        if not hit.covered:
            return hit
        with anyio.move_on_after(DECIDED_WITHIN_S):
            for each in hit.covered:
                await _decided(each)
        covered = [each.cancelled for each in hit.covered if each.cancelled is not None]
        return replace(hit, dropped=(*hit.dropped, *covered))

    def release(self, session_id: str) -> bool:
        """Cancel what is active and take it off its lane at once; False if nothing was."""
        lane = self._lanes.find(session_id)
        if lane is None or lane.active is None:
            return False
        lane.active.give_up()
        return True

    async def rotate(self, old_id: str, new_id: str) -> None:
        """Let a session go on under a new id; both resolve to one lane until nobody works with it.

        To be called before anybody else knows the new id.
        """
        lane = self._lanes.find(old_id)
        if lane is not None:
            self._lanes.alias(lane, new_id)
            if lane.is_told_busy:
                await self._tasks.ask(partial(self._decisions.busy, lane))

    @asynccontextmanager
    async def _reserved(self, session_id: str) -> AsyncIterator[Reservation]:
        """Take a place on a session's lane, before anything is written down."""
        async with self._lanes.hold_session(session_id) as lane:
            self._tasks.check_open()
            reservation = lane.reserve()
            try:
                yield reservation
            except BaseException:
                reservation.close()
                raise

    async def _accept(
        self, reservation: Reservation, write: Callable[[], Awaitable[Accepted]], reply: Reply[Accepted]
    ) -> None:
        lane = reservation.lane
        with self._lanes.keep(lane):
            try:
                accepted = await write()
            except Exception as error:  # noqa: BLE001 -- it is the answer
                reply.fail(error)
            else:
                reply.give(accepted)
                if accepted.is_new:
                    await self._runner.enter(accepted.run, reservation)
            finally:
                reservation.close()
            await self._decisions.settle(lane)

    def _tell_stalled(self, lane: Lane, error: StoreError) -> None:
        if self._on_stalled is not None:
            self._on_stalled(lane.ids[-1], error)

    def _add_child(self, parent: Run, session_id: str) -> None:
        lane = self._lanes.find(parent.session_id)
        entry = None if lane is None else lane.active
        if entry is None or entry.is_cancelled or entry.run is None or entry.run.id != parent.id:
            raise FencedError(f"run {parent.id} has ended or was stopped: it cannot prompt {session_id}")
        self._under_way.add_child(parent, session_id)


async def _decided(reservation: Reservation) -> None:
    """Wait until it is decided what becomes of an acceptance."""
    if not reservation.is_closed:
        decided = anyio.Event()
        reservation.on_decided.append(decided.set)
        await decided.wait()
