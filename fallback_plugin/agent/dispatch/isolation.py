"""A session kept for one operation that is no run: its prompts wait behind it, or are refused."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fallback_plugin.agent.dispatch.lane_journal import LaneJournal
from fallback_plugin.agent.dispatch.lane_runner import LaneRunner
from fallback_plugin.agent.dispatch.lane_table import LaneTable
from fallback_plugin.agent.dispatch.own_tasks import OwnTasks


class Isolation:
    """Gives lanes to operations. Got from the dispatcher."""

    def __init__(self, lanes: LaneTable, decisions: LaneJournal, runner: LaneRunner, tasks: OwnTasks) -> None:
        self._lanes = lanes
        self._decisions = decisions
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
            self._tasks.start(self._decisions.until_idle, lane)  # so that a stop waits for it
            try:
                yield
            finally:
                self._tasks.start(self._runner.serve, lane, self._runner.hand_off(lane, entry))

    @asynccontextmanager
    async def emptied(self, session_id: str) -> AsyncIterator[None]:
        """Cancel everything in a session, wait for its end and keep it empty: for its deletion.

        Not refused because of what runs there. Prompts that come meanwhile are, with status 409.

        Raises:
            StoreError: if the ends cannot be written now, e.g. on a full disk.
        """
        async with self._lanes.hold_session(session_id) as lane:
            self._tasks.check_open()
            lane.deletions += 1
            try:
                self._decisions.dropped(lane, lane.cancel().dropped)
                await self._decisions.until_idle(lane, unless_stalled=True)
                yield
            finally:
                lane.deletions -= 1
