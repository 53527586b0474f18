"""Run one plugin: a queue for each session, work beside the hooks, and an end to both."""

import logging
from collections.abc import Callable, Mapping
from typing import Any, Final

import anyio
from anyio.abc import TaskGroup
from anyio.lowlevel import checkpoint

from fallback_plugin.host_client import HostCalls
from fallback_plugin.plugins.client import PluginClient, Work
from fallback_plugin.plugins.failures import FailureLog
from fallback_plugin.plugins.invocation import Outcome, attempt
from fallback_plugin.plugins.limits import Limits
from fallback_plugin.plugins.registry import Implementation, LoadedPlugin
from fallback_plugin.plugins.session_queue import Delivery, SessionQueue

logger = logging.getLogger(__name__)

_DELIVERIES_PER_TURN: Final = 16
"""After how many deliveries a queue lets others run: plain functions alone would never do so."""

_NOTICEABLE_S: Final = 0.05
"""Blocking for less is nobody's concern, however little time was left."""


class PluginRunner:
    """Call one plugin. A session's deliveries run one at a time and in order, sessions side by side.

    A queue and its task exist only while something waits in it. ``report_suspended`` is called once, when
    the plugin has fallen too far behind; from then on it is left alone.
    """

    def __init__(
        self,
        plugin: LoadedPlugin,
        calls: HostCalls,
        *,
        limits: Limits,
        failures: FailureLog,
        clock: Callable[[], float],
        report_suspended: Callable[[LoadedPlugin], None],
    ) -> None:
        self.plugin = plugin
        self.client = PluginClient(calls, self._start_work)
        self.suspended = False
        self._limits = limits
        self._failures = failures
        self._clock = clock
        self._report_suspended = report_suspended
        self._queues: dict[str | None, SessionQueue] = {}
        self._scopes: set[anyio.CancelScope] = set()
        self._deliveries: TaskGroup | None = None
        self._background: TaskGroup | None = None

    def allow_work(self, background: TaskGroup | None) -> None:
        """Let ``start_soon`` run in this task group; None forbids it again."""
        self._background = background

    def open(self, deliveries: TaskGroup) -> None:
        """Begin to deliver, what already waits first."""
        self._deliveries = deliveries
        for session_id, queue in self._queues.items():
            deliveries.start_soon(self._revocable, self._deliver, session_id, queue)

    def close(self) -> None:
        """Give up what was not delivered. The task group given to `open` must have ended."""
        self._deliveries = None
        self._give_up_queues()

    def put(self, session_id: str | None, delivery: Delivery) -> None:
        """Queue a delivery; never blocks."""
        if self.suspended:
            delivery.give_up()
            return
        queue = self._queues.get(session_id)
        if queue is None:
            queue = SessionQueue(max_streams=self._limits.backlog, max_text=self._limits.streamed_text)
            self._queues[session_id] = queue
            if self._deliveries is not None:
                self._deliveries.start_soon(self._revocable, self._deliver, session_id, queue)
        if not queue.put(delivery):
            delivery.give_up()
            logger.debug("plugin %r is busy: progress of a stream was dropped", self.plugin.name)
        if self._deliveries is not None and self._is_too_far_behind(queue):
            self._suspend()

    async def caught_up(self, session_id: str | None) -> None:
        """Wait until everything queued so far for the session has run."""
        queue = self._queues.get(session_id)
        if queue is not None and (youngest := queue.youngest) is not None:
            await youngest.over.wait()

    async def drained(self) -> None:
        """Wait until all queues are empty."""
        while self._queues:
            await self.caught_up(next(iter(self._queues)))
            await checkpoint()

    async def call(
        self, implementation: Implementation, arguments: Mapping[str, Any], deadline_s: float
    ) -> Outcome:
        """Call an implementation, cut it at its deadline, and log its failure.

        Blocking code cannot be cut: what it returns counts, but that it took too long is logged.
        """
        began = self._clock()
        positional = implementation.positional(arguments)
        outcome = await attempt(implementation.function, *positional, deadline_s=deadline_s)
        error = outcome.error
        if error is None and self._clock() - began > max(deadline_s, _NOTICEABLE_S):
            error = TimeoutError("it blocked the host for longer than its deadline: use async functions")
        if error is not None:
            self._failures.record(self.plugin, implementation.hook, error)
        return outcome

    async def _deliver(self, session_id: str | None, queue: SessionQueue) -> None:
        delivered = 0
        try:
            while (delivery := queue.take()) is not None:
                for implementation in delivery.implementations:
                    outcome = await self.call(implementation, delivery.arguments, self._limits.notify_s)
                    if outcome.error is not None:
                        delivery.complete = False
                delivered += 1
                if delivered % _DELIVERIES_PER_TURN == 0:
                    await checkpoint()
        finally:
            queue.give_up()
            if self._queues.get(session_id) is queue:
                del self._queues[session_id]

    def _start_work(self, function: Work, arguments: tuple[object, ...]) -> None:
        if self._background is None or self.suspended:
            reason = "was suspended" if self.suspended else "has no running host"
            raise RuntimeError(f"plugin {self.plugin.name!r} cannot start work: it {reason}")
        self._background.start_soon(self._revocable, self._work, function, arguments)

    async def _work(self, function: Work, arguments: tuple[object, ...]) -> None:
        outcome = await attempt(function, *arguments)
        if outcome.error is not None:
            self._failures.record(self.plugin, "work started with start_soon", outcome.error)

    async def _revocable(self, function: Work, *arguments: object) -> None:
        """Run something that suspending the plugin ends."""
        if self.suspended:
            return
        with anyio.CancelScope() as scope:
            self._scopes.add(scope)
            try:
                await function(*arguments)
            finally:
                self._scopes.discard(scope)

    def _is_too_far_behind(self, queue: SessionQueue) -> bool:
        # A queue whose task has had no turn yet says nothing about the plugin.
        if queue.backlog <= self._limits.backlog or not queue.is_running:
            queue.behind_since = None
            return False
        now = self._clock()
        if queue.behind_since is None:
            queue.behind_since = now
        return now - queue.behind_since >= self._limits.backlog_s

    def _suspend(self) -> None:
        self.suspended = True
        self._give_up_queues()
        for scope in tuple(self._scopes):
            scope.cancel()
        self._report_suspended(self.plugin)

    def _give_up_queues(self) -> None:
        for queue in self._queues.values():
            queue.give_up()
        self._queues.clear()
