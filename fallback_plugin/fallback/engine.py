"""The decisions: events in, effects out. No I/O, no clock, no randomness.

`Engine.handle` takes what a host tells, `Engine.finished` the outcome of an effect, `Engine.choose_model` a
prompt before it runs. Times are seconds since the epoch.
"""

from typing import Final

from fallback_plugin import events
from fallback_plugin.events import AssistantMessage, Event, HostError, Part, UserMessage
from fallback_plugin.fallback import toasts
from fallback_plugin.fallback.chain import Chain, chain_for
from fallback_plugin.fallback.classify import Failure, classify
from fallback_plugin.fallback.effects import (
    Abort,
    Effect,
    Fetched,
    FetchMessages,
    FetchSession,
    Outcome,
    Prompt,
    Record,
    StopTimer,
    TimerFired,
    Toast,
)
from fallback_plugin.fallback.guards import superseded
from fallback_plugin.fallback.policy import action_for
from fallback_plugin.fallback.redirect import choose_model, undo_unless_taken
from fallback_plugin.fallback.session import Attempt, RunState, Session, Turn, same_model
from fallback_plugin.fallback.state import FallbackState
from fallback_plugin.fallback.switching import Context, Switching, first_token_timer, stopped_by_user
from fallback_plugin.hookspecs import PromptRequest
from fallback_plugin.model_ref import ModelRef
from fallback_plugin.settings import Settings
from fallback_plugin.wire.toast import Toast as ToastBody

SESSION_LIFE_S: Final = 30 * 60.0
"""How long a quiet session is remembered; a model that still cools keeps it longer."""

LONG_WAIT_S: Final = 45.0
"""A longer retry wait comes from the provider: OpenCode's own are 40 s at most."""

HIDDEN_AGENTS: Final = frozenset({"compaction", "summary", "title"})
"""Agents of the host's own; their turns are not the user's and are left to the host."""

CONTENT_PARTS: Final = frozenset({"reasoning", "text", "tool"})


class Engine:
    """Decides for any number of sessions. ``settings`` may be replaced at any time."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.switching = Switching()
        self._sessions: dict[str, Session] = {}

    def session(self, session_id: str) -> Session | None:
        """Return what is known of a session."""
        return self._sessions.get(session_id)

    def busy(self, session_id: str) -> bool:
        """Tell whether a session's turn is still being worked on."""
        session = self._sessions.get(session_id)
        turn = session.turn if session else None
        return turn is not None and (turn.running or session_id in self.switching.in_flight)

    def handle(self, event: Event | TimerFired, now: float) -> list[Effect]:
        """Take an event and return what to do about it."""
        if isinstance(event, events.SessionDeleted):
            return self._forget(event.session_id)
        if not self.settings.fallback.enabled:
            return []
        if isinstance(event, TimerFired):
            return self._timer(event, now)
        if not isinstance(event, events.SessionEvent):
            return []
        known = event.session_id in self._sessions
        session = self._sessions.setdefault(event.session_id, Session(event.session_id))
        session.last_seen = now
        if isinstance(event, events.SessionCreated):
            session.parent_id = event.parent_id
            return []
        return [*([] if known else [FetchSession(session.id)]), *self._session_event(session, event, now)]

    def finished(self, effect: Effect, outcome: Outcome, now: float) -> list[Effect]:
        """Take the outcome of an effect and return what to do next."""
        session = self._sessions.get(effect.session_id)
        if session is None:
            return []
        context = self._context(session, now)
        match effect:
            case Abort():
                return self.switching.finished_abort(session, effect, outcome, context)
            case FetchMessages():
                return self.switching.finished_fetch(session, outcome, context)
            case Prompt():
                return self.switching.finished_prompt(session, effect, outcome, context)
            case FetchSession():
                if isinstance(outcome, Fetched) and outcome.session is not None:
                    session.parent_id = outcome.session.parent_id
                return []
            case _:
                return []

    def choose_model(self, request: PromptRequest, now: float) -> tuple[ModelRef | None, list[Effect]]:
        """Return the model a prompt shall run on, None to leave it alone, and what else to do."""
        session = self._sessions.get(request.session_id)
        if session is None or session.state is None or not self.settings.fallback.enabled:
            return None, []
        replayed = session.turn is not None and request.message_id == session.turn.message_id
        if session.switch is not None or (replayed and request.message_id is not None):
            return None, []
        choice = choose_model(session, session.state, request, self._chain(session, request.agent), now)
        recovered = toasts.recovered(session.state.original)
        said = self._context(session, now).toast(session, recovered) if choice.recovered else []
        return choice.model, said

    def prune(self, now: float) -> None:
        """Forget sessions that have been quiet for long and have no model cooling."""
        for session in list(self._sessions.values()):
            quiet = now - session.last_seen > SESSION_LIFE_S
            if quiet and session.switch is None and not session.cooling(now):
                del self._sessions[session.id]

    def _session_event(self, session: Session, event: Event, now: float) -> list[Effect]:
        match event:
            case events.MessageUpdated(message=UserMessage() as message):
                return self._user_message(session, message, now)
            case events.MessageUpdated(message=AssistantMessage() as message):
                return self._assistant_message(session, message, now)
            case events.MessagePartUpdated():
                return self._part(session, event.part)
            case events.SessionStatus():
                return self._status(session, event, now)
            case events.SessionIdle():
                return self._idle(session, event.sequence)
            case events.SessionError():
                return self._session_error(session, event.error, now)
            case _:
                return []

    def _user_message(self, session: Session, message: UserMessage, now: float) -> list[Effect]:
        turn = session.turn
        if turn is None:
            self._begin_turn(session, message, now)
        elif message.id == turn.message_id:
            turn.user = message
            turn.agent = message.agent
            if same_model(message.model, turn.attempt.model):
                turn.attempt.begun = True
        elif self._is_own_resend(turn, message):
            turn.message_id, turn.created_at, turn.user = message.id, message.created_at, message
            turn.attempt.begun = True
        elif message.id in session.past or message.created_at < turn.created_at:
            pass  # hosts publish older messages again
        elif turn.running and not turn.cancelled:
            session.queued = message
        else:
            self._begin_turn(session, message, now)
        return []

    def _is_own_resend(self, turn: Turn, message: UserMessage) -> bool:
        """Tell whether a new message is the turn's own text, sent anew because in place was refused."""
        return turn.awaiting_result and not turn.attempt.begun and message.model == turn.attempt.model

    def _begin_turn(self, session: Session, message: UserMessage, now: float) -> None:
        undo_unless_taken(session, message.model)
        turn = session.begin_turn(message)
        session.ledger.forget_before(turn.attempt.number, now)
        state = session.state
        if state is None:
            return
        state.begin_turn()
        if same_model(message.model, state.original) and state.current != state.original:
            state.current, state.index = state.original, -1
        elif not same_model(message.model, state.current):
            session.state = FallbackState(message.model, message.model, usable_at=state.usable_at)

    def _assistant_message(self, session: Session, message: AssistantMessage, now: float) -> list[Effect]:
        turn = self._turn_of(session, message, now)
        if turn is None:
            return []
        turn.agent = message.agent or turn.agent
        attempt = turn.attempt_of(message)
        if attempt is None:
            if session.switch is not None:
                return []
            attempt = session.new_attempt(message.model)
            turn.attempts.append(attempt)
        new_step = message.id not in turn.steps
        turn.steps[message.id] = attempt
        attempt.begun = True
        if message.error is not None:
            return self._message_error(session, turn, attempt, message.error, now)
        if attempt is not turn.attempt or turn.cancelled:
            return []
        if message.completed:
            return self._completed(session, turn, attempt, message)
        if new_step and not attempt.failed:
            attempt.silent = True
            return first_token_timer(session, attempt, self.settings)
        return []

    def _completed(
        self, session: Session, turn: Turn, attempt: Attempt, message: AssistantMessage
    ) -> list[Effect]:
        """Note that a step ended; an abort ends a retry wait's without a finish and without an error."""
        if attempt.retrying and message.finish is None and not session.ledger.aborted(attempt.number):
            return self._cancel(session, turn, "stopped in a retry wait, and not by us")
        return [StopTimer(session.id, "first_token")]

    def _turn_of(self, session: Session, message: AssistantMessage, now: float) -> Turn | None:
        """Return the turn a message answers, None if that is over; a queued message's turn begins with it."""
        turn = session.turn
        if session.queued is not None and message.parent_id == session.queued.id:
            self._begin_turn(session, session.queued, now)
        elif turn is None and not message.completed:
            attempt = session.new_attempt(message.model)
            session.turn = Turn(message.parent_id, message.created_at, message.agent, None, [attempt])
        elif turn is None or message.parent_id != turn.message_id:
            return None
        return session.turn

    def _part(self, session: Session, part: Part) -> list[Effect]:
        turn = session.turn
        attempt = turn.steps.get(part.message_id) if turn else None
        if turn is None or attempt is None or part.type not in CONTENT_PARTS or not attempt.silent:
            return []
        attempt.silent = False
        first = not attempt.answered
        attempt.answered = True
        if attempt is not turn.attempt:
            return []
        effects: list[Effect] = [StopTimer(session.id, "first_token")]
        if first and len(turn.attempts) > 1:
            effects += self._toast(session, toasts.switched(attempt.model))
            effects.append(Record(session.id, "switched", str(attempt.model)))
        return effects

    def _status(self, session: Session, event: events.SessionStatus, now: float) -> list[Effect]:
        turn = session.turn
        if turn is None or turn.cancelled or event.status == "idle":
            return []
        turn.running = True
        attempt = turn.attempt
        attempt.retrying = event.status == "retry" and attempt.begun
        if event.status == "busy":
            waiting = attempt.silent and attempt.begun and not attempt.failed and session.switch is None
            return first_token_timer(session, attempt, self.settings) if waiting else []
        if not attempt.begun:
            return []
        error = HostError(name="", message=event.message)
        failure = classify(error, now, rules=self.settings.fallback.rules)
        wait_s = (event.next_at or now) - now
        if failure.retry_after_s is None and wait_s > LONG_WAIT_S:
            failure = failure.waiting(wait_s)
        return [
            StopTimer(session.id, "first_token"),
            *self._failed(session, turn, attempt, failure, now, run="waiting", retried=event.attempt > 1),
        ]

    def _idle(self, session: Session, sequence: int | None) -> list[Effect]:
        session.ledger.idle()
        turn, switch = session.turn, session.switch
        if switch is not None:
            switch.idles.append(sequence)
        if turn is None:
            return []
        if switch is not None and stopped_by_user(switch) and not turn.attempt.begun:
            return self._cancel(session, turn, "an idle more than our abort accounts for")
        if (switch is None or switch.turn is not turn) and not turn.awaiting_result:
            turn.running = False
            return [StopTimer(session.id, "first_token")]
        return []

    def _session_error(self, session: Session, error: HostError, now: float) -> list[Effect]:
        turn = session.turn
        if turn is None:
            return []
        attempt, switch = turn.attempt, session.switch
        if switch is not None and attempt is switch.failed_attempt:
            switch.run = "running" if error.is_abort and switch.run != "over" else "over"
        if error.is_abort:
            late = session.ledger.may_still_report(now)
            return [] if late else self._foreign_abort(session, turn, attempt, now)
        if not attempt.begun:
            return []  # the host shows a new model's turn before its failure
        return self._error(session, turn, attempt, error, now)

    def _message_error(
        self, session: Session, turn: Turn, attempt: Attempt, error: HostError, now: float
    ) -> list[Effect]:
        if not error.is_abort:
            return self._error(session, turn, attempt, error, now)
        if attempt is not turn.attempt or session.ledger.aborted(attempt.number):
            return []
        return self._foreign_abort(session, turn, attempt, now)

    def _foreign_abort(self, session: Session, turn: Turn, attempt: Attempt, now: float) -> list[Effect]:
        if turn.cancelled:
            return []
        if self.settings.fallback.on_foreign_abort == "stop":
            return self._cancel(session, turn, "aborted, and not by us")
        failure = Failure(kind="unknown", evidence="name:MessageAbortedError")
        return self._failed(session, turn, attempt, failure, now, retried=True)

    def _cancel(self, session: Session, turn: Turn, reason: str) -> list[Effect]:
        """Take the user's word: nothing is sent until their next message."""
        turn.cancelled = True
        turn.running = False
        return [StopTimer(session.id, "first_token"), Record(session.id, "user stopped", reason)]

    def _error(
        self, session: Session, turn: Turn, attempt: Attempt, error: HostError, now: float
    ) -> list[Effect]:
        failure = classify(error, now, rules=self.settings.fallback.rules)
        return self._failed(session, turn, attempt, failure, now, retried=error.is_retryable is True)

    def _timer(self, fired: TimerFired, now: float) -> list[Effect]:
        session = self._sessions.get(fired.session_id)
        turn = session.turn if session else None
        if session is None or turn is None or turn.attempt.number != fired.attempt or not turn.attempt.silent:
            return []
        failure = Failure(kind="timeout", evidence="no first token")
        return self._failed(session, turn, turn.attempt, failure, now, run="running")

    def _failed(
        self,
        session: Session,
        turn: Turn,
        attempt: Attempt,
        failure: Failure,
        now: float,
        *,
        run: RunState = "over",
        retried: bool = False,
    ) -> list[Effect]:
        """Answer a failure once. ``retried`` says that the host has asked the model again already."""
        if attempt is not turn.attempt or attempt.failed or turn.cancelled or session.switch is not None:
            return []
        if session.state is not None and superseded(session.state, attempt.model):
            return []
        action = action_for(failure.kind, self.settings.fallback.policy)
        if action == "retry_then_fallback" and retried:
            action = "fallback"
        if action != "fallback":
            return [Record(session.id, f"no switch: {action}", f"{attempt.model}: {failure.kind}")]
        if session.parent_id is not None:
            return [Record(session.id, "no switch: child", "its parent is told and goes on")]
        if turn.agent in HIDDEN_AGENTS:
            return [Record(session.id, "no switch: hidden agent", str(turn.agent))]
        context = self._context(session, now)
        if not context.chain:
            return self._no_chain(session, attempt, failure)
        return self.switching.begin(session, turn, failure, context, run=run)

    def _no_chain(self, session: Session, attempt: Attempt, failure: Failure) -> list[Effect]:
        if session.no_chain_said:
            return []
        session.no_chain_said = True
        return [
            *self._toast(session, toasts.no_chain(attempt.model, failure)),
            Record(session.id, "no switch: no chain", f"{attempt.model}: {failure.kind}"),
        ]

    def _chain(self, session: Session, agent: str | None = None) -> Chain:
        turn = session.turn
        return chain_for(self.settings, agent or (turn.agent if turn else None))

    def _context(self, session: Session, now: float) -> Context:
        return Context(self.settings, self._chain(session), now)

    def _toast(self, session: Session, toast: ToastBody) -> list[Effect]:
        return [Toast(session.id, toast)] if self.settings.fallback.notify else []

    def _forget(self, session_id: str) -> list[Effect]:
        self.switching.in_flight.release(session_id)
        if self._sessions.pop(session_id, None) is None:
            return []
        return [StopTimer(session_id, "first_token")]
