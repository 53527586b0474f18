"""The plugin host: loads plugins, then tells and asks them what a coding agent's host says."""

import logging
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any

import anyio
from anyio import TASK_STATUS_IGNORED
from anyio.abc import TaskGroup, TaskStatus

from fallback_plugin.errors import PluginLoadError
from fallback_plugin.events import Event
from fallback_plugin.host_client import HostCalls
from fallback_plugin.plugins.answers import wrong_answer
from fallback_plugin.plugins.discovery import built_in, dropped_in, installed, passed_in
from fallback_plugin.plugins.failures import FailureLog
from fallback_plugin.plugins.invocation import attempt
from fallback_plugin.plugins.limits import Limits
from fallback_plugin.plugins.registry import Implementation, LoadedPlugin, Registry
from fallback_plugin.plugins.routing import Router
from fallback_plugin.plugins.runner import PluginRunner
from fallback_plugin.plugins.session_queue import Delivery, event_delivery
from fallback_plugin.plugins.subscriptions import Subscriptions, subscriptions
from fallback_plugin.wire.toast import Toast

if TYPE_CHECKING:
    from fallback_plugin.settings import Settings

logger = logging.getLogger(__name__)


class PluginHost:
    """Bring one coding agent's events and questions to plugins, whatever these do.

    ``calls`` is what the agent's host offers; every plugin gets its own view of it. Load plugins, then keep
    `run` running; publish and ask meanwhile. Not thread-safe: use it from the event loop's thread.

    Args:
        calls: the host's calls.
        limits: deadlines and bounds.
        clock: seconds of a clock that never goes back.
    """

    def __init__(
        self, calls: HostCalls, *, limits: Limits | None = None, clock: Callable[[], float] = monotonic
    ) -> None:
        self._calls = calls
        self._limits = limits or Limits()
        self._clock = clock
        self._failures = FailureLog()
        self._registry = Registry()
        self._runners: dict[str, PluginRunner] = {}
        self._router = Router(self._registry, (), clock)
        self._background: TaskGroup | None = None
        self._started = False
        self._serving = False
        self._stop_requested = anyio.Event()
        self._ended = anyio.Event()

    @property
    def plugins(self) -> tuple[LoadedPlugin, ...]:
        """The loaded plugins in the order of their loading."""
        return self._registry.plugins

    @property
    def subscriptions(self) -> Subscriptions:
        """What a host has to send so that every plugin gets what it implements."""
        registry = self._registry
        implemented = [hook for hook in registry.hooks if any(self._active(hook))]
        return subscriptions(implemented, registry.first_result)

    def implements(self, hook: str) -> bool:
        """Tell whether any plugin implements a hook."""
        return any(self._active(hook))

    def load(
        self,
        *,
        dirs: Sequence[Path] = (),
        block: Collection[str] = (),
        explicit: Mapping[str, object] = {},
        builtins: bool = True,
        entry_points: bool = True,
    ) -> tuple[PluginLoadError, ...]:
        """Load built-in plugins, entry points, the files in ``dirs`` and ``explicit`` ones, in this order.

        The plugins named in ``block`` are skipped wherever they come from, without being imported.
        A plugin that cannot be loaded is logged and in the answer, and the others are loaded all the same.

        Raises:
            RuntimeError: once the host has been started.
        """
        if self._started:
            raise RuntimeError("plugins can only be loaded before the host runs")
        sources = chain(
            built_in() if builtins else (),
            installed() if entry_points else (),
            dropped_in(dirs),
            passed_in(explicit),
        )
        errors = self._registry.load(sources, block=block)
        for error in errors:
            logger.error("%s", error)
            logger.debug("its traceback:", exc_info=error.__cause__)
        for plugin in self._registry.plugins:
            if plugin.name not in self._runners:
                self._runners[plugin.name] = self._runner(plugin)
        self._router = Router(self._registry, self._runners.values(), self._clock)
        return errors

    async def run(self, *, task_status: TaskStatus[None] = TASK_STATUS_IGNORED) -> None:
        """Tell plugins that the host started, then deliver events until `stop` or cancellation.

        ``task_status`` is told when ``host_started`` has been answered and events flow. What was published
        before waits for that. When it ends, events get a moment to be delivered, ``host_stopping`` is
        called, and whatever plugins still do is cancelled. A host runs once.
        """
        if self._started:
            raise RuntimeError("a plugin host runs only once")
        self._started = True
        try:
            async with anyio.create_task_group() as background:
                self._allow_work(background)
                try:
                    await self._serve(task_status)
                finally:
                    self._serving = False
                    self._stop_requested.set()
                    for runner in self._runners.values():
                        runner.close()
                    with anyio.move_on_after(self._limits.notify_s, shield=True):
                        await self._call_in_turn("host_stopping")
                    self._allow_work(None)
                    background.cancel_scope.cancel()
        finally:
            self._ended.set()

    async def stop(self) -> None:
        """End `run` in good order and wait until it has ended. Without a run, only forbid one's serving."""
        self._stop_requested.set()
        if self._started:
            await self._ended.wait()

    def publish(self, raw: Mapping[str, Any], event: Event) -> None:
        """Queue an event for every plugin that wants it: ``raw`` as the host sent it, and normalised.

        Never blocks and never raises. After `stop` events are dropped. Once a session was deleted, what
        still comes about it reaches the hook ``event`` alone.
        """
        if self._stop_requested.is_set():
            return
        for runner, implementations in self._router.routes(event):
            runner.put(event.session_id, event_delivery(implementations, raw, event, runner.client))

    async def ask(self, hook: str, *, session_id: str | None, **arguments: object) -> Any | None:  # noqa: ANN401 -- each hook has its own type
        """Ask plugins one after the other until one answers; None if none does in time.

        A plugin is asked once it has seen the session's earlier events, or after ``order_wait_s``.
        One that raises, hangs or answers with something no host can use is logged and passed over. None
        may use more than its share of the time left, so that the plugins after it are asked as well.

        Raises:
            ValueError: if ``hook`` is not a first-result hook.
            TypeError: if the arguments are not those of the hook.
        """
        if hook not in self._registry.first_result:
            raise ValueError(f"{hook!r} is not a hook that is answered by its first result")
        arguments["session_id"] = session_id
        self._registry.check_arguments(hook, arguments)
        if not self._serving:
            return None
        asked = tuple(self._active(hook))
        ends_at = self._clock() + self._limits.question_deadline_s(hook)
        for position, (runner, implementation) in enumerate(asked):
            share_s = (ends_at - self._clock()) / (len(asked) - position)
            if share_s <= 0:
                logger.warning("no time was left to ask plugin %r %s", runner.plugin.name, hook)
                break
            answer = await self._answer(runner, implementation, session_id, arguments, share_s)
            if answer is not None:
                return answer
        return None

    async def notify(self, hook: str, *, session_id: str | None, **arguments: object) -> tuple[str, ...]:
        """Call a hook that is not about an event, in order with the session's events, and wait for it.

        Returns:
            The names of the plugins whose implementation did not run to its end.

        Raises:
            ValueError: if ``hook`` is a first-result hook, or none at all.
            TypeError: if the arguments are not those of the hook.
            RuntimeError: if the host does not run yet.
        """
        if hook not in self._registry.hooks - self._registry.first_result:
            raise ValueError(f"{hook!r} is not a hook to notify plugins with")
        arguments["session_id"] = session_id
        self._registry.check_arguments(hook, arguments)
        if not self._started:
            raise RuntimeError(f"{hook} before the plugin host runs")
        waiting = []
        for runner, implementation in self._active(hook):
            delivery = Delivery((implementation,), {**arguments, "host": runner.client})
            waiting.append((runner, delivery))
            if self._stop_requested.is_set():
                delivery.give_up()
            else:
                runner.put(session_id, delivery)
        for _, delivery in waiting:
            await delivery.over.wait()
        failed = (runner.plugin.name for runner, delivery in waiting if not delivery.complete)
        return tuple(dict.fromkeys(failed))

    async def settings_changed(self, settings: "Settings") -> None:
        """Hand plugins the settings in force and wait until they took them, in the order of the calls.

        Raises:
            RuntimeError: if the host does not run yet.
        """
        await self.notify("settings_changed", session_id=None, settings=settings)

    async def _serve(self, task_status: TaskStatus[None]) -> None:
        await self._call_in_turn("host_started")
        async with anyio.create_task_group() as deliveries:
            for runner in self._runners.values():
                runner.open(deliveries)
            self._serving = True
            task_status.started()
            await self._stop_requested.wait()
            self._serving = False
            with anyio.move_on_after(self._limits.drain_s):
                for runner in self._runners.values():
                    await runner.drained()
            deliveries.cancel_scope.cancel()

    async def _call_in_turn(self, hook: str) -> None:
        for implementation in self._registry.implementations(hook):
            runner = self._runners[implementation.plugin.name]
            await runner.call(implementation, {"host": runner.client}, self._limits.notify_s)

    async def _answer(
        self,
        runner: PluginRunner,
        implementation: Implementation,
        session_id: str | None,
        arguments: Mapping[str, object],
        share_s: float,
    ) -> object:
        began = self._clock()
        if session_id is not None:
            with anyio.move_on_after(min(self._limits.order_wait_s, share_s / 2)):
                await runner.caught_up(session_id)
        left_s = max(0.0, share_s - (self._clock() - began))
        outcome = await runner.call(implementation, {**arguments, "host": runner.client}, left_s)
        if outcome.value is None:
            return None
        if (error := wrong_answer(implementation.hook, outcome.value)) is not None:
            self._failures.record(runner.plugin, implementation.hook, error)
            return None
        return outcome.value

    def _active(self, hook: str) -> Iterator[tuple[PluginRunner, Implementation]]:
        for implementation in self._registry.implementations(hook):
            runner = self._runners[implementation.plugin.name]
            if not runner.suspended:
                yield runner, implementation

    def _runner(self, plugin: LoadedPlugin) -> PluginRunner:
        return PluginRunner(
            plugin,
            self._calls,
            limits=self._limits,
            failures=self._failures,
            clock=self._clock,
            report_suspended=self._report_suspended,
        )

    def _allow_work(self, background: TaskGroup | None) -> None:
        self._background = background
        for runner in self._runners.values():
            runner.allow_work(background)

    def _report_suspended(self, plugin: LoadedPlugin) -> None:
        behind = f"fell more than {self._limits.backlog:,} events behind in one session"
        logger.error(
            "plugin %r (%s) %s: it is suspended until the host restarts", plugin.name, plugin.origin, behind
        )
        toast = Toast(
            title="Plugin suspended",
            message=f"The plugin {plugin.name} {behind} and is not called any more. Restart to use it again.",
            variant="error",
        )
        if self._background is not None:
            self._background.start_soon(self._show, toast)

    async def _show(self, toast: Toast) -> None:
        outcome = await attempt(self._calls.toast, toast)
        if outcome.error is not None:
            logger.warning("the host did not show a toast: %r", outcome.error)
