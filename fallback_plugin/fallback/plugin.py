"""The hooks of the fallback plugin: they hand events to the engine and carry its effects out.

Effects run beside the hooks, so that an abort's own events can come in while the call is open; those of one
session that wait for each other are chained by the engine, one outcome at a time.
"""

import logging
import time
from collections.abc import Callable
from typing import Final

import anyio

from fallback_plugin.errors import HostCallError
from fallback_plugin.events import (
    MessagePartUpdated,
    MessageUpdated,
    SessionCreated,
    SessionDeleted,
    SessionError,
    SessionEvent,
    SessionIdle,
    SessionStatus,
)
from fallback_plugin.fallback.effects import (
    Abort,
    Done,
    Effect,
    Failed,
    Fetched,
    FetchMessages,
    FetchSession,
    Outcome,
    Prompt,
    Record,
    StartTimer,
    StopTimer,
    TimerFired,
    Toast,
)
from fallback_plugin.fallback.engine import Engine
from fallback_plugin.fallback.task_result import child_awaited, filled, last_answer
from fallback_plugin.hookspecs import PromptRequest, ToolCall, ToolResult, hookimpl
from fallback_plugin.host_client import HostClient
from fallback_plugin.model_ref import ModelRef
from fallback_plugin.settings import Settings

PRUNE_EVERY_S: Final = 300.0

log = logging.getLogger(__name__)


class FallbackPlugin:
    """Keeps a session working when its model fails."""

    def __init__(self, *, clock: Callable[[], float] = time.time) -> None:
        self.engine = Engine(Settings())
        self._clock = clock
        self._timers: dict[tuple[str, str], anyio.CancelScope] = {}
        self._waiting_for_idle: dict[str, anyio.Event] = {}
        self._pruned_at = clock()

    @hookimpl
    def settings_changed(self, settings: Settings) -> None:
        """Decide by these settings from now on."""
        self.engine.settings = settings

    @hookimpl
    def session_created(self, event: SessionCreated, host: HostClient) -> None:
        """Learn which sessions are children."""
        self._handle(event, host)
        if self._clock() - self._pruned_at > PRUNE_EVERY_S:
            self._pruned_at = self._clock()
            self.engine.prune(self._pruned_at)

    @hookimpl
    def session_deleted(self, event: SessionDeleted, host: HostClient) -> None:
        """Forget the session."""
        self._handle(event, host)
        if waiting := self._waiting_for_idle.pop(event.session_id, None):
            waiting.set()

    @hookimpl
    def session_status(self, event: SessionStatus, host: HostClient) -> None:
        """See the host wait to retry: the only early sign of most failures."""
        self._handle(event, host)

    @hookimpl
    def session_idle(self, event: SessionIdle, host: HostClient) -> None:
        """See runs end."""
        self._handle(event, host)
        if waiting := self._waiting_for_idle.pop(event.session_id, None):
            waiting.set()

    @hookimpl
    def session_error(self, event: SessionError, host: HostClient) -> None:
        """See runs fail."""
        self._handle(event, host)

    @hookimpl
    def message_updated(self, event: MessageUpdated, host: HostClient) -> None:
        """Follow turns, attempts and the errors of messages."""
        self._handle(event, host)

    @hookimpl
    def message_part_updated(self, event: MessagePartUpdated, host: HostClient) -> None:
        """See a model begin to answer."""
        self._handle(event, host)

    @hookimpl
    def chat_message(self, request: PromptRequest, host: HostClient) -> ModelRef | None:
        """Send a prompt to the fallback in use while the primary cools."""
        model, effects = self.engine.choose_model(request, self._clock())
        self._start(effects, host)
        return model

    @hookimpl
    async def tool_after(self, call: ToolCall, result: ToolResult, host: HostClient) -> ToolResult | None:
        """Give a parent the text of a child that answered late; without one the result stays as it is."""
        child = child_awaited(call, result)
        if child is None:
            return None
        while self.engine.busy(child):
            await self._idle_of(child).wait()
        text = last_answer(await host.messages(child))
        return filled(result, text) if text else None

    def _idle_of(self, session_id: str) -> anyio.Event:
        return self._waiting_for_idle.setdefault(session_id, anyio.Event())

    def _handle(self, event: SessionEvent | TimerFired, host: HostClient) -> None:
        self._start(self.engine.handle(event, self._clock()), host)

    def _start(self, effects: list[Effect], host: HostClient) -> None:
        for effect in effects:
            match effect:
                case Record():
                    log.info("%s: %s (%s)", effect.session_id, effect.decision, effect.reason)
                case StopTimer():
                    self._stop_timer(effect.session_id, effect.name)
                case StartTimer():
                    self._stop_timer(effect.session_id, effect.name)
                    scope = self._timers[effect.session_id, effect.name] = anyio.CancelScope()
                    host.start_soon(self._run_timer, effect, scope, host)
                case _:
                    host.start_soon(self._carry_out, effect, host)

    async def _carry_out(self, effect: Effect, host: HostClient) -> None:
        try:
            outcome = await self._call(effect, host)
        except HostCallError as error:
            log.warning("%s: %s failed: %s", effect.session_id, type(effect).__name__, error)
            outcome = Failed(str(error), error.status)
        except Exception as error:  # the engine must hear of every outcome, or the session stays in flight
            log.exception("%s: %s failed", effect.session_id, type(effect).__name__)
            outcome = Failed(type(error).__name__)
        self._start(self.engine.finished(effect, outcome, self._clock()), host)

    async def _call(self, effect: Effect, host: HostClient) -> Outcome:
        match effect:
            case Abort():
                return Done(await host.abort(effect.session_id))
            case Prompt():
                return Done(await host.prompt(effect.session_id, effect.body))
            case FetchSession():
                return Fetched(session=await host.session(effect.session_id))
            case FetchMessages():
                return Fetched(messages=tuple(await host.messages(effect.session_id)))
            case Toast():
                await host.toast(effect.body)
        return Done()

    async def _run_timer(self, timer: StartTimer, scope: anyio.CancelScope, host: HostClient) -> None:
        with scope:
            await anyio.sleep(timer.after_s)
            self._timers.pop((timer.session_id, timer.name), None)
            self._handle(TimerFired(timer.session_id, timer.name, timer.attempt), host)

    def _stop_timer(self, session_id: str, name: str) -> None:
        if scope := self._timers.pop((session_id, name), None):
            scope.cancel()
