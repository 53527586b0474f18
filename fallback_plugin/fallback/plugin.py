"""The hooks of the fallback plugin: they hand events to the engine and carry its effects out.

Effects run beside the hooks, so that an abort's own events can come in while the call is open; those of one
session that wait for each other are chained by the engine, one outcome at a time.
"""

import logging
import os
import time
from collections.abc import Callable, Collection, Mapping
from functools import partial
from pathlib import Path
from typing import Final
from uuid import uuid4

import anyio
from anyio.lowlevel import checkpoint

from fallback_plugin.errors import HostCallError
from fallback_plugin.events import (
    MessagePartDelta,
    MessagePartUpdated,
    MessageRemoved,
    MessageUpdated,
    ModelRequested,
    SessionAbortRequested,
    SessionCreated,
    SessionDeleted,
    SessionError,
    SessionEvent,
    SessionIdle,
    SessionStatus,
)
from fallback_plugin.fallback.chain_advice import chain_advice
from fallback_plugin.fallback.classify import warm_up
from fallback_plugin.fallback.decisions import DecisionLog, beside, read_decisions
from fallback_plugin.fallback.effects import (
    PROBED,
    Abort,
    Claim,
    CloseModel,
    DeleteMessage,
    Done,
    Effect,
    EndProbe,
    Failed,
    Fetched,
    FetchMessages,
    FetchSession,
    GiveUp,
    Outcome,
    Prompt,
    Record,
    Reopen,
    Revert,
    StartTimer,
    StopTimer,
    TimerFired,
    Toast,
    Unrevert,
)
from fallback_plugin.fallback.engine import Engine
from fallback_plugin.fallback.host_models import HostModels
from fallback_plugin.fallback.owed_turns import OwedTurns, reasons_of
from fallback_plugin.fallback.redirect import moved_sessions
from fallback_plugin.fallback.state import Moved
from fallback_plugin.fallback.task_result import child_awaited, filled, last_answer
from fallback_plugin.fallback.timers import Timers
from fallback_plugin.health import HealthStore, MemoryHealth, default_file
from fallback_plugin.health.opening import open_health
from fallback_plugin.health.scope import Key
from fallback_plugin.hookspecs import (
    Confirmation,
    LastWords,
    ModelAttempt,
    NextModel,
    PromptRequest,
    ToolCall,
    ToolResult,
    hookimpl,
)
from fallback_plugin.host_client import ENDS_AT_IDLE, OUTDATED, STOPPED, HostClient, HostKind
from fallback_plugin.model_ref import ModelRef
from fallback_plugin.settings import HealthSettings, Settings

PRUNE_EVERY_S: Final = 300.0

NOTES_S: Final = 1.0
"""How long the end of a run waits for toasts to be shown."""

LEASE_S: Final = 120.0
"""How long a failure stays claimed: longer than the host goes on reporting it by itself, which is 70 s."""

TELL_REQUESTS: Final = frozenset[HostKind]({"serve", "tui", "run", "acp"})
"""The hosts with a bridge, which tells when a model is asked."""

SAID_S: Final = 24 * 3600.0
"""How long it is remembered that a note which is shown once was shown: as long as a host may wait."""

log = logging.getLogger(__name__)


def _moved_in(file: Path) -> dict[str, Mapping[str | None, Moved]]:
    return moved_sessions(read_decisions(file))


class FallbackPlugin:
    """Keeps a session working when its model fails.

    Args:
        clock: seconds since the epoch.
        health: where cooldowns and leases stand; by default what the settings name, a file or a server.
        holder: the name under which this instance takes leases.
        on_decision: told of every decision, as it is written down.
        settings_file: the one file that settings are read from, None for the user's and the project's.
    """

    def __init__(
        self,
        *,
        clock: Callable[[], float] = time.time,
        health: HealthStore | None = None,
        holder: str | None = None,
        on_decision: Callable[[Record], None] | None = None,
        settings_file: Path | None = None,
    ) -> None:
        self.engine = Engine(Settings())
        self._clock = clock
        self._health: HealthStore = health or MemoryHealth()
        self._own_health = health is None
        self._health_settings: HealthSettings | None = None
        self._holder = holder or uuid4().hex
        self._on_decision = on_decision
        self._settings_file = settings_file
        self.engine.health.begin_probe = self._begin_probe
        self._notes_open = 0
        self._note_shown: anyio.Event | None = None
        self.timers = Timers(self._timer_fired)
        self._host_models = HostModels(self.engine)
        self._waiting_for_idle: dict[str, anyio.Event] = {}
        self._owed_turns = OwedTurns(
            self.engine, clock=clock, read_health=self._read_health, start=self._start, claim=self._claim
        )
        self._decisions: DecisionLog | None = None
        self._pruned_at = clock()

    def host_lost(self) -> None:
        """Judge no silence from now on: the connection to the host is lost, and answers go on unheard."""
        self.timers.hold()

    def host_heard_again(self, sessions: Collection[str] | None = None) -> None:
        """Measure silences from now on, with all their time before them.

        Args:
            sessions: those whose turns are known to go on, None if the host says of all which have ended. The
                silences of the others are dropped, for their models may have answered.
        """
        self.engine.heard_since = self._clock()
        self.timers.release(sessions)

    @hookimpl
    def host_started(self, host: HostClient) -> None:
        """Learn how the host runs (a live screen wants another replay than a server) and what it offers."""
        self.engine.host_kind = host.kind
        self.engine.chain_advice = partial(chain_advice, Path(host.directory), self._settings_file)
        self.engine.tells_requests = host.kind in TELL_REQUESTS
        self._look_up_models(host)
        host.start_soon(self._warm_up)

    @hookimpl
    def settings_changed(self, settings: Settings, host: HostClient) -> None:
        """Decide by these settings from now on."""
        if self._own_health and settings.health != self._health_settings:
            self._health.shut()
            self._health = open_health(settings.health, os.environ, on_trouble=log.error)
            self._health_settings = settings.health
            file = settings.health.file or default_file(os.environ)
            self._decisions = DecisionLog(beside(file), on_trouble=log.warning)
            host.start_soon(self._recall_moved, self._decisions.file)
        has_other_models = settings.providers != self.engine.settings.providers
        self.engine.settings = settings
        if has_other_models:
            self._look_up_models(host)
        else:
            host.start_soon(self._host_models.say_unlisted, host)

    @hookimpl
    def host_stopping(self) -> None:
        """Let go of what is shared."""
        self._health.shut()

    @hookimpl
    def session_created(self, event: SessionCreated, host: HostClient) -> None:
        """Learn which sessions are children."""
        self._handle(event, host)
        if self._clock() - self._pruned_at > PRUNE_EVERY_S:
            self._pruned_at = self._clock()
            self.engine.prune(self._pruned_at)
            self._look_up_models(host)

    @hookimpl
    def session_deleted(self, event: SessionDeleted, host: HostClient) -> None:
        """Forget the session."""
        self._handle(event, host)

    @hookimpl
    def session_status(self, event: SessionStatus, host: HostClient) -> None:
        """See the host wait to retry: the only early sign of most failures."""
        self._handle(event, host)

    @hookimpl
    def session_idle(self, event: SessionIdle, host: HostClient) -> None:
        """See runs end."""
        self._handle(event, host)

    @hookimpl
    def session_abort_requested(self, event: SessionAbortRequested, host: HostClient) -> None:
        """Take a stop of which the host may say nothing itself."""
        self._handle(event, host)

    @hookimpl
    def model_requested(self, event: ModelRequested, host: HostClient) -> None:
        """See models be asked, from when on their silence counts."""
        self._handle(event, host)

    @hookimpl
    def session_error(self, event: SessionError, host: HostClient) -> None:
        """See runs fail."""
        self._handle(event, host)

    @hookimpl
    def message_updated(self, event: MessageUpdated, host: HostClient) -> None:
        """Follow turns, attempts and the errors of messages."""
        self._handle(event, host)

    @hookimpl
    def message_removed(self, event: MessageRemoved, host: HostClient) -> None:
        """See messages leave the history."""
        self._handle(event, host)

    @hookimpl
    def message_part_updated(self, event: MessagePartUpdated, host: HostClient) -> None:
        """See a model begin to answer."""
        self._handle(event, host)

    @hookimpl
    def message_activity(self, event: MessagePartDelta, host: HostClient) -> None:
        """See an answer grow."""
        self._handle(event, host)

    @hookimpl
    def chat_message(self, request: PromptRequest, host: HostClient) -> ModelRef | None:
        """Send a prompt to the fallback in use while the primary cools."""
        self._read_health()
        model, effects = self.engine.choose_model(request, self._clock())
        self._start(effects, request.session_id, host)
        return model

    @hookimpl
    def model_attempt_failed(self, attempt: ModelAttempt, host: HostClient) -> NextModel | None:
        """Have a failed request answered by the next model, where that is to be done inline."""
        self._read_health()
        answer, effects = self.engine.attempt_failed(attempt, self._clock())
        self._start(effects, attempt.session_id, host)
        return answer

    @hookimpl
    def background_model(self, attempt: ModelAttempt, host: HostClient) -> ModelRef | None:
        """Have a title made by another model while its own rests."""
        self._read_health()
        model, effects = self.engine.background_model(attempt, self._clock())
        self._start(effects, attempt.session_id, host)
        return model

    @hookimpl
    def confirm_prompt(self, session_id: str, message_id: str | None) -> Confirmation | None:
        """Drop a replay that crossed the user's stop."""
        return "stop" if self.engine.is_stopped(session_id, message_id) else None

    @hookimpl
    async def run_ending(self, session_id: str, host: HostClient) -> LastWords | None:
        """Send the turn that a run leaves unanswered to the models that are left, until one answers.

        Where a turn is sent again all the same, whoever waits for its answer waits for the end of that.
        """
        if host.kind not in ENDS_AT_IDLE:
            if not self.engine.busy(session_id):
                return None
            await self._until_idle(session_id)
            return LastWords()
        output = await self._owed_turns.answer(session_id, host)
        with anyio.move_on_after(NOTES_S):
            await self._until_notes_are_shown()
        return output

    async def _until_notes_are_shown(self) -> None:
        """Wait for the toasts that are on their way: a run prints them and must not end before."""
        while self._notes_open:
            self._note_shown = anyio.Event()
            await self._note_shown.wait()

    @hookimpl
    async def tool_after(self, call: ToolCall, result: ToolResult, host: HostClient) -> ToolResult | None:
        """Give a parent the text of a child that answered late; without one the result stays as it is."""
        child = child_awaited(call, result)
        if child is None:
            return None
        await self._until_idle(child)
        text = last_answer(await host.messages(child))
        return filled(result, text) if text else None

    async def _until_idle(self, session_id: str) -> None:
        if self.engine.busy(session_id):
            await self._waiting_for_idle.setdefault(session_id, anyio.Event()).wait()

    def _look_up_models(self, host: HostClient) -> None:
        host.start_soon(self._learn, host)

    async def _learn(self, host: HostClient) -> None:
        """Learn what the host offers and what is closed, beside the start and before anything has failed."""
        await self._host_models.read(host)
        self._read_health()

    async def _recall_moved(self, file: Path) -> None:
        """Learn which sessions an earlier process has moved from their primary."""
        try:
            self.engine.remember_moved(await anyio.to_thread.run_sync(_moved_in, file))
        except OSError as error:
            log.warning("%s: it cannot be read (%s)", file, error.strerror or error)

    async def _warm_up(self) -> None:
        for _ in warm_up():
            await checkpoint()

    def _handle(self, event: SessionEvent | TimerFired, host: HostClient) -> None:
        if isinstance(event, SessionStatus | SessionError | TimerFired):
            self._read_health()
        self._start(self.engine.handle(event, self._clock()), event.session_id, host)

    def _finished(self, effect: Effect, outcome: Outcome, host: HostClient) -> None:
        self._read_health()
        self._start(self.engine.finished(effect, outcome, self._clock()), effect.session_id, host)

    def _read_health(self) -> None:
        self.engine.health.view = self._health.view(self._clock())

    def _start(self, effects: list[Effect], session_id: str, host: HostClient) -> None:
        for effect in effects:
            match effect:
                case Record():
                    self._write_down(effect)
                case StopTimer():
                    self.timers.stop(effect.session_id, effect.name)
                case StartTimer():
                    self.timers.start(effect, host)
                case Claim():
                    self._finished(effect, self._claim_failure(effect), host)
                case Toast(once=str() as key) if not self._may_say(key):
                    log.debug("%s: it was said before", session_id)
                case CloseModel() | Reopen() | EndProbe():
                    self._tell_health(effect)
                case Toast():
                    self._notes_open += 1
                    host.start_soon(self._show, effect, host)
                case _:
                    host.start_soon(self._carry_out, effect, host)
        if session_id in self._waiting_for_idle and not self.engine.busy(session_id):
            self._waiting_for_idle.pop(session_id).set()

    def _write_down(self, record: Record) -> None:
        log.info("%s: %s (%s)", record.session_id, record.decision, record.reason)
        if record.decision == "exhausted" and record.why:
            log.info("%s: %s", record.session_id, "; ".join(reasons_of(record.why)))
        if self._decisions:
            self._decisions.write(record, self._clock())
        if self._on_decision:
            self._on_decision(record)

    def _claim_failure(self, claim: Claim) -> Outcome:
        if not self._claim(claim.key):
            return Failed("another instance has it")
        if claim.probe is None or self._begin_probe(claim.probe, claim.session_id):
            return Done()
        return Failed(PROBED)

    def _begin_probe(self, key: Key, session_id: str) -> bool:
        granted = self._health.begin_probe(key, session_id, self._clock(), ttl_s=LEASE_S)
        self._read_health()
        return granted

    def _tell_health(self, effect: CloseModel | Reopen | EndProbe) -> None:
        match effect:
            case CloseModel():
                self._health.close(
                    effect.model,
                    effect.scope,
                    effect.until,
                    reason=effect.reason,
                    now=self._clock(),
                    base_s=effect.base_s,
                    grows_to_s=effect.grows_to_s,
                )
            case Reopen(_, model, asked_at):
                self._health.reopen(model, asked_at=asked_at)
            case EndProbe(session_id, model):
                self._health.end_probe(model, session_id)
        self._read_health()  # a note that is written next says until when a model rests

    def _claim(self, key: str) -> bool:
        return self._health.claim(key, self._holder, self._clock(), ttl_s=LEASE_S)

    def _may_say(self, key: str) -> bool:
        """Tell whether nobody has said it: no other process, nor this one before it forgot the session."""
        return self._health.claim(key, uuid4().hex, self._clock(), ttl_s=SAID_S)

    async def _carry_out(self, effect: Effect, host: HostClient) -> None:
        try:
            outcome = await self._call(effect, host)
        except HostCallError as error:
            level = logging.DEBUG if error.status in {STOPPED, OUTDATED} else logging.WARNING
            log.log(level, "%s: %s failed: %s", effect.session_id, type(effect).__name__, error)
            outcome = Failed(str(error), error.status)
        except Exception as error:  # the engine must hear of every outcome, or the session stays in flight
            log.exception("%s: %s failed", effect.session_id, type(effect).__name__)
            outcome = Failed(type(error).__name__)
        self._finished(effect, outcome, host)

    async def _show(self, note: Toast, host: HostClient) -> None:
        try:
            await self._carry_out(note, host)
        finally:
            self._notes_open -= 1
            if self._note_shown is not None:
                self._note_shown.set()

    async def _call(self, effect: Effect, host: HostClient) -> Outcome:
        match effect:
            case Abort():
                return Done(await host.abort(effect.session_id, after=effect.after, run_over=effect.run_over))
            case Prompt():
                return Done(await host.prompt(effect.session_id, effect.body, after=effect.after))
            case GiveUp():
                await host.give_up(effect.session_id, effect.agent, flowing=effect.flowing)
            case FetchSession():
                return Fetched(session=await host.session(effect.session_id))
            case FetchMessages():
                return Fetched(messages=tuple(await host.messages(effect.session_id)))
            case Revert():
                await host.revert(effect.session_id, effect.message_id)
            case Unrevert():
                await host.unrevert(effect.session_id)
            case DeleteMessage():
                await host.delete_message(effect.session_id, effect.message_id)
            case Toast():
                await host.toast(effect.body, session_id=effect.session_id, after=effect.after)
        return Done()

    def _timer_fired(self, timer: StartTimer, host: HostClient) -> None:
        self._handle(TimerFired(timer.session_id, timer.name, timer.attempt), host)
