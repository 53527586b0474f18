"""A session kept for one operation that is no run: its prompts wait behind it, or are refused."""

import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from fallback_plugin.agent.dispatch.active_entry import ActiveEntry
from fallback_plugin.agent.dispatch.lane import Lane
from fallback_plugin.agent.dispatch.lane_runner import LaneRunner
from fallback_plugin.agent.dispatch.lane_table import LaneTable
from fallback_plugin.agent.dispatch.own_tasks import OwnTasks

logger = logging.getLogger(__name__)


class Isolation:
    """Gives lanes to operations. Got from the dispatcher."""

    def __init__(self, lanes: LaneTable, runner: LaneRunner, tasks: OwnTasks) -> None:
        self._lanes = lanes
        self._runner = runner
        self._tasks = tasks

    @asynccontextmanager
    async def exclusive(self, session_id: str, purpose: str) -> AsyncIterator[None]:
        """Keep an idle session for something short, such as an undo; prompts wait behind it.

        Raises:
            AgentError: with status 409 if the session is busy.
        """
        async with self._lanes.hold_session(session_id) as lane:
            self._tasks.check_open()
            entry = lane.occupy(purpose)
            self._tasks.start(self._runner.until_idle, lane)  # so that a stop waits for it
            try:
                yield
            finally:
                self._tasks.start(self._runner.serve, lane, self._runner.hand_off(lane, entry))

    @asynccontextmanager
    async def emptied(self, session_id: str) -> AsyncIterator[None]:
        """Cancel everything in a session, wait for its end and keep it empty: for its deletion.

        Never refused. Prompts that come meanwhile are, with status 409.
        """
        async with self._lanes.hold_session(session_id) as lane:
            self._tasks.check_open()
            lane.deletions += 1
            try:
                self._runner.end_dropped(lane, lane.cancel().dropped)
                await self._runner.until_idle(lane)
                yield
            finally:
                lane.deletions -= 1

    async def phase(
        self,
        session_id: str,
        purpose: str,
        work: Callable[[], Awaitable[None]],
        *,
        fence: Callable[[], Awaitable[None]] | None = None,
    ) -> bool:
        """Do something long in an idle session, such as a compaction; prompts wait behind it.

        Args:
            session_id: the session.
            purpose: what is done, for the message of a refusal.
            work: called inside a cancel scope that a cancel of the session cancels.
            fence: called if the work has not unwound in time after a cancel; takes its right to write away.

        Returns:
            True if the work ran to its end, False if it was cancelled.

        Raises:
            AgentError: with status 409 if the session is busy.
            Exception: what the work raises.
        """
        async with self._lanes.hold_session(session_id) as lane:
            self._tasks.check_open()
            entry = lane.occupy(purpose)
            return await self._tasks.ask(lambda: self._carry_out(lane, entry, work, fence))

    async def _carry_out(
        self,
        lane: Lane,
        entry: ActiveEntry,
        work: Callable[[], Awaitable[None]],
        fence: Callable[[], Awaitable[None]] | None,
    ) -> bool:
        with self._lanes.keep(lane):
            await self._runner.tell_busy(lane)
            unwound, error = await self._runner.supervise(entry, work)
            if not unwound:
                logger.error("work on session %s has not stopped and is taken off its lane", lane.ids[-1])
            try:
                if not unwound and fence is not None:
                    await fence()
            finally:
                self._tasks.start(self._runner.serve, lane, self._runner.hand_off(lane, entry))
        if error is not None:
            raise error
        return not entry.is_cancelled
