"""Commits in the background: at boundaries, again after failures, and a last time before the host ends."""

import logging
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final

import anyio
from anyio import TASK_STATUS_IGNORED
from anyio.abc import TaskGroup, TaskStatus

from fallback_plugin.agent.memory.ledger import MemoryLedger

logger = logging.getLogger(__name__)

DRAIN_S: Final = 30.0
LOOK_EVERY_S: Final = 30.0


class CommitWorker:
    """Keep `run` running; it looks every ``look_every_s`` for failed commits that are due.

    Args:
        ledger: what there is to commit.
        clock: the ledger's clock.
        threshold: with how many turns a session is committed that reaches no boundary; None for never.
        look_every_s: how often to look for what is due.
    """

    def __init__(
        self,
        ledger: MemoryLedger,
        *,
        clock: Callable[[], float],
        threshold: int | None = None,
        look_every_s: float = LOOK_EVERY_S,
    ) -> None:
        self._ledger = ledger
        self._clock = clock
        self._threshold = threshold
        self._look_every_s = look_every_s
        self._tasks: TaskGroup | None = None
        self._under_way: set[anyio.Event] = set()
        self._is_draining = False

    async def run(self, *, task_status: TaskStatus[None] = TASK_STATUS_IGNORED) -> None:
        """Commit what is asked for and what is due, until cancelled. `drain` before."""
        async with anyio.create_task_group() as self._tasks:
            task_status.started()
            while True:
                await anyio.sleep(self._look_every_s)
                now = self._clock()
                for session_id, at in (await self._ledger.due()).items():
                    if at <= now:
                        self.commit_soon(session_id)

    def commit_soon(self, session_id: str) -> bool:
        """Commit a session's turns in the background: at a boundary. False once `drain` was called."""
        if self._is_draining or self._tasks is None:
            return False
        self.start(partial(self._commit_all, session_id))
        return True

    def turn_completed(self, session_id: str, uncommitted: int) -> None:
        """Commit a session that has reached the threshold; a turn's end is no boundary by itself."""
        if self._threshold is not None and uncommitted >= self._threshold:
            self.commit_soon(session_id)

    async def drain(self, deadline_s: float = DRAIN_S) -> list[str]:
        """Commit everything there is, as far as that goes; return the sessions that are left.

        Background commits come to their end first. It ends at the deadline whatever a provider does, or
        when a whole pass over the sessions brings nothing; what is left stays for the next start.
        """
        self._is_draining = True
        with anyio.move_on_after(deadline_s):
            await self.quiet()
            unreached: dict[str, set[str]] = {}
            while dirty := await self._ledger.dirty():
                if not await self._pass(dirty, unreached):
                    break
        left = await self._ledger.dirty()
        if left:
            logger.warning("memory of these sessions is not committed: %s", ", ".join(left))
        return left

    async def quiet(self) -> None:
        """Wait for what is under way."""
        for done in list(self._under_way):
            await done.wait()

    def start(self, work: Callable[[], Awaitable[object]]) -> anyio.Event:
        """Do something in a task that nobody's deadline cancels; return what is set at its end."""
        if self._tasks is None:
            raise RuntimeError("the commit worker does not run")
        done = anyio.Event()
        self._under_way.add(done)

        async def do() -> None:
            try:
                await work()
            except Exception:
                logger.exception("memory cannot be committed")
            finally:
                self._under_way.discard(done)
                done.set()

        self._tasks.start_soon(do)
        return done

    async def _pass(self, sessions: list[str], unreached: dict[str, set[str]]) -> bool:
        """Commit one segment of each session, side by side; tell whether any was kept.

        Owners that could not be reached before are left out.
        """
        kept: list[str] = []

        async def commit(session_id: str) -> None:
            left_out = unreached.setdefault(session_id, set())
            if await self._ledger.commit(session_id, wait=True, unreached=left_out):
                kept.append(session_id)

        for done in [self.start(partial(commit, session_id)) for session_id in sessions]:
            await done.wait()
        return bool(kept)

    async def _commit_all(self, session_id: str) -> None:
        unreached: set[str] = set()
        while await self._ledger.commit(session_id, unreached=unreached):
            pass
