"""Something under way that can be cancelled, and is given up when it does not unwind in time."""

import logging
from collections.abc import Awaitable, Callable

import anyio

from fallback_plugin.agent.dispatch.own_tasks import OwnTasks

logger = logging.getLogger(__name__)


class Execution:
    """One call in a task and a cancel scope of its own.

    Args:
        call: what to do; its cleanup is its own.
        watchdog_s: how long it may take to unwind once it was cancelled.
        on_cancel: what else a cancel has to reach.
    """

    def __init__(
        self, call: Callable[[], Awaitable[None]], *, watchdog_s: float, on_cancel: Callable[[], None]
    ) -> None:
        self._call = call
        self._watchdog_s = watchdog_s
        self._on_cancel = on_cancel
        self._scope = anyio.CancelScope()
        self._stirred = anyio.Event()
        self._left = anyio.Event()
        self._is_given_up = False
        self.error: Exception | None = None

    def cancel(self) -> None:
        """Ask the call to unwind, and start the watchdog."""
        self._scope.cancel()
        self._stirred.set()
        self._on_cancel()

    def give_up(self) -> None:
        """Ask the call to unwind, and let `carry_out` return without it."""
        self.cancel()
        self._left.set()

    async def carry_out(self, tasks: OwnTasks) -> bool:
        """Make the call in a task of ``tasks`` and wait for its end; False if it was given up.

        `error` is then what it raised.
        """
        over = anyio.Event()
        tasks.start(self._run, over)
        await self._stirred.wait()
        if not over.is_set():
            with anyio.move_on_after(self._watchdog_s):
                await self._left.wait()
        self._is_given_up = not over.is_set()
        return not self._is_given_up

    async def _run(self, over: anyio.Event) -> None:
        try:
            with self._scope:
                await self._call()
        except Exception as error:  # noqa: BLE001 -- whoever carries it out reports it
            self.error = error
            if self._is_given_up:
                logger.warning("what was given up ended with: %s", error)
        finally:
            over.set()
            self._stirred.set()
            self._left.set()
