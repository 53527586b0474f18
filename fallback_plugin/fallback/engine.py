"""The decisions: events in, effects out. No I/O, no clock, no randomness.

`Engine.handle` takes what a host tells, `Engine.finished` the outcome of an effect, `Engine.choose_model` a
prompt before it runs. Times are seconds since the epoch.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from fallback_plugin import events
from fallback_plugin.events import AssistantMessage, Event, SessionEvent, StoredMessage, UserMessage
from fallback_plugin.fallback.chain import chain_for
from fallback_plugin.fallback.context import Context, plain_advice, stop_run, stop_timers
from fallback_plugin.fallback.effects import (
    Effect,
    Failed,
    Fetched,
    FetchMessages,
    FetchSession,
    GiveUp,
    Outcome,
    Record,
    TimerFired,
    Unrevert,
)
from fallback_plugin.fallback.first_answer import first_answer
from fallback_plugin.fallback.follow import (
    BESIDE,
    adopt_history,
    follow_assistant_message,
    follow_part,
    follow_user_message,
)
from fallback_plugin.fallback.inline import HIDDEN, Inline
from fallback_plugin.fallback.redirect import as_it_was, choose_model, keep_unlisted_apart
from fallback_plugin.fallback.session import Attempt, Session
from fallback_plugin.fallback.settling import Settlement, judge_answer, settle
from fallback_plugin.fallback.shared_health import SessionHealth, SharedHealth
from fallback_plugin.fallback.signals import Signals
from fallback_plugin.fallback.silences import Silences
from fallback_plugin.fallback.state import FallbackState, Moved
from fallback_plugin.fallback.switching import Switching
from fallback_plugin.hookspecs import ModelAttempt, NextModel, PromptRequest
from fallback_plugin.host_client import HostKind
from fallback_plugin.model_ref import ModelRef
from fallback_plugin.settings import Settings
from fallback_plugin.wire.model_catalog import EVERYTHING, ModelCatalog

SESSION_LIFE_S: Final = 30 * 60.0
"""How long a quiet session is remembered."""

MOVED_REMEMBERED: Final = 2000
"""Sessions whose primary is remembered for longer, where they have not come back to it."""


class Engine:
    """Decides for any number of sessions.

    ``settings`` may be replaced at any time, and so may ``health.view``, which all sessions share, and
    ``catalog``, what the host says of its models. ``heard_since`` is when a host that was lost was last heard
    again. ``tells_requests`` says that the host tells when it asks a model (`ModelRequested`): none counts as
    silent before. ``chain_advice`` says what a person has to do for want of a chain.
    """

    def __init__(self, settings: Settings, *, host_kind: HostKind = "serve") -> None:
        self.settings = settings
        self.host_kind: HostKind = host_kind
        self.health = SharedHealth()
        self.catalog: ModelCatalog = EVERYTHING
        self.heard_since = 0.0
        self.tells_requests = False
        self.chain_advice: Callable[[], str] = plain_advice
        self.switching = Switching()
        self._inline = Inline(self.health)
        self._signals = Signals(self.switching, self.health)
        self._silences = Silences(self._signals, self.switching, self.health)
        self._sessions: dict[str, Session] = {}
        self._moved: dict[str, Mapping[str | None, Moved]] = {}

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
            session = self._sessions.get(event.session_id)
            return self._timer(session, event, self._context(session, now)) if session else []
        if not isinstance(event, SessionEvent):
            return []
        if isinstance(event, events.SessionAbortRequested):
            return self._abort_requested(event, now)
        session = self._sessions.setdefault(event.session_id, Session(event.session_id))
        session.last_seen = now
        session.heard = event.sequence
        introduced, session.introduced = session.introduced, True
        if isinstance(event, events.SessionCreated):
            session.parent_id = event.parent_id
            return []
        return [
            *([] if introduced else [FetchSession(session.id)]),
            *self._session_event(session, event, now),
        ]

    def finished(self, effect: Effect, outcome: Outcome, now: float) -> list[Effect]:
        """Take the outcome of an effect and return what to do next."""
        session = self._sessions.get(effect.session_id)
        if session is None:
            return []
        if isinstance(effect, FetchSession):
            if isinstance(outcome, Fetched) and outcome.session is not None:
                session.parent_id = outcome.session.parent_id
            return []
        if isinstance(effect, Unrevert):
            session.hides = isinstance(outcome, Failed)
            return []
        if isinstance(effect, GiveUp):
            return self._silences.given_up(session, effect, outcome, self._context(session, now))
        if isinstance(effect, FetchMessages) and session.unseen is not None:
            return self._judge_unseen(session, outcome, now)
        if isinstance(effect, FetchMessages) and session.looking:
            return self._judge_silence(session, effect, outcome, now)
        context = self._context(session, now)
        return [
            *self.switching.finished(session, effect, outcome, context),
            *self._signals.judge_at_last(session, context),
        ]

    def choose_model(self, request: PromptRequest, now: float) -> tuple[ModelRef | None, list[Effect]]:
        """Return the model a prompt shall run on, None to leave it alone, and what else to do."""
        if not self.settings.fallback.enabled:
            return None, []
        session = self._sessions.setdefault(request.session_id, Session(request.session_id, last_seen=now))
        if session.switch is not None or (session.turn and session.turn.is_replayed_by(request)):
            return None, []
        if self.is_stopped(request.session_id, request.message_id):
            return None, []  # what is left of a prompt of ours
        keep_unlisted_apart(session, request, self.catalog)
        context = self._context(session, now, agent=request.agent)
        state = session.state
        if state is None:
            wanted = request.model or request.resolved
            health = SessionHealth(self.health, session.id)
            state = as_it_was(self._moved.get(session.id, {}), request, health, context)
            if state is not None:
                del self._moved[session.id]
            if state is None and wanted is not None and not self._may_ask(wanted, health, now):
                state = FallbackState.on(wanted, health)
            if state is None:
                return None, []
            session.state = state
        return choose_model(session, state, request, context)

    def attempt_failed(self, request: ModelAttempt, now: float) -> tuple[NextModel | None, list[Effect]]:
        """Return whom to ask instead of a model whose request failed, and what else to do."""
        if not self.settings.fallback.enabled:
            return None, []
        session, context = self._asking(request, now)
        return (
            (None, [])
            if self._is_forgone(session, request)
            else self._inline.answer(session, request, context)
        )

    def background_model(self, request: ModelAttempt, now: float) -> tuple[ModelRef | None, list[Effect]]:
        """Return who makes a title while its own model rests, None if that does not, and what else to do."""
        if not self.settings.fallback.enabled:
            return None, []
        session, context = self._asking(request, now)
        return (
            (None, [])
            if self._is_forgone(session, request)
            else self._inline.redirect(session, request, context)
        )

    @staticmethod
    def _is_forgone(session: Session, request: ModelAttempt) -> bool:
        """Tell whether a request is for a title of a stopped turn: the host forgets to stop that."""
        return request.agent in BESIDE and session.turn is not None and session.turn.cancelled

    def is_stopped(self, session_id: str, message_id: str | None) -> bool:
        """Tell whether a prompt of ours that is about to begin is of a turn that the user stopped or left."""
        session = self._sessions.get(session_id)
        turn = session.turn if session else None
        if session is None or turn is None or message_id is None:
            return False
        sent = session.switch or session.handed_in
        if sent is not None and message_id == sent.turn.message_id:
            return sent.over(turn) is not None
        if message_id == turn.message_id:
            return turn.cancelled
        return message_id in session.unwanted or message_id in session.stopped

    def owes(self, session_id: str) -> bool:
        """Tell whether a session's turn failed and is to be sent again when its run has ended."""
        return self.owed_attempt(session_id) is not None

    def owed_attempt(self, session_id: str) -> str | None:
        """Return the name of the failure for which a session's turn is owed, the same in every process."""
        session = self._sessions.get(session_id)
        if session is None or session.owed is None:
            return None
        turn = session.owed.turn
        if turn is not session.turn or turn.cancelled:
            return None
        return f"{session_id}/{turn.message_id}/{session.owed.attempt.model}"

    def settle(
        self, session_id: str, history: Sequence[StoredMessage], now: float
    ) -> tuple[Settlement | None, list[Effect]]:
        """Return how a session's owed turn is sent again; None if no model is left for it."""
        session = self._sessions[session_id]
        return settle(session, history, self.switching, self._context(session, now))

    def settled(
        self, session_id: str, settlement: Settlement, answer: StoredMessage | None, now: float
    ) -> list[Effect]:
        """Take in what an owed turn was answered with; None if the host refused it."""
        session = self._sessions.get(session_id)
        if session is None:
            return []  # it was deleted meanwhile
        return judge_answer(session, settlement, answer, self.health, self._context(session, now))

    def prune(self, now: float) -> None:
        """Forget sessions that have been quiet for long, but for the primary of those that were moved."""
        for session in list(self._sessions.values()):
            quiet = now - session.last_seen > SESSION_LIFE_S
            if quiet and session.switch is None:
                self._remember_moved(session)
                del self._sessions[session.id]

    def remember_moved(self, moved: Mapping[str, Mapping[str | None, Moved]]) -> None:
        """Take in which sessions were moved from their primary, as far as an earlier process has told."""
        for session_id, each in list(moved.items())[-MOVED_REMEMBERED:]:
            self._moved.setdefault(session_id, each)

    @staticmethod
    def _may_ask(model: ModelRef, health: SessionHealth, now: float) -> bool:
        return health.closed_until(model) <= now and health.may_ask(model)

    def _remember_moved(self, session: Session) -> None:
        state = session.set_aside.state if session.set_aside else session.state
        if state is None or not state.moved:
            return
        self._moved.pop(session.id, None)
        self._moved[session.id] = state.moved
        while len(self._moved) > MOVED_REMEMBERED:
            del self._moved[next(iter(self._moved))]

    def _abort_requested(self, event: events.SessionAbortRequested, now: float) -> list[Effect]:
        """Take a stop for a session and for those that its tools have started.

        A host of several folders tells each of them, so the session may be nobody's here.
        """
        if session := self._sessions.get(event.session_id):
            session.heard = event.sequence
        return [
            effect
            for session in self._sessions.values()
            if event.session_id in self._line_of(session)
            for effect in self._signals.abort_requested(session, self._context(session, now))
        ]

    def _line_of(self, session: Session) -> list[str]:
        """Return the ids of a session and of those whose tools have led to it."""
        line = [session.id]
        parent = session.parent_id
        while parent is not None and parent not in line:
            line.append(parent)
            of = self._sessions.get(parent)
            parent = of.parent_id if of else None
        return line

    def _timer(self, session: Session, fired: TimerFired, context: Context) -> list[Effect]:
        turn = session.turn
        if fired.name == "settle":
            settled = self.switching.settled(session, context)
            return [*settled, *self._signals.judge_at_last(session, context)]
        if fired.name != "reopen":
            return self._silences.timer(session, fired, context)
        if turn is None or turn.attempt.number != fired.attempt:
            return []
        return self.switching.come_back(session, turn, context)

    def _session_event(self, session: Session, event: Event, now: float) -> list[Effect]:
        context = self._context(session, now)
        match event:
            case events.MessageUpdated(message=UserMessage() as message):
                follow_user_message(session, message, now)
                return self._signals.user_message(session, message, context)
            case events.MessageUpdated(message=AssistantMessage() as message):
                return self._answer(session, message, now)
            case events.MessageRemoved():
                return self._signals.message_removed(session, event.message_id)
            case events.MessagePartUpdated():
                return self._part(session, event, context)
            case events.ModelRequested():
                return self._silences.model_requested(session, event.message_id, context)
            case events.MessagePartDelta():
                return self._signals.grew(session, event.message_id, context)
            case events.SessionStatus() | events.SessionError() | events.SessionIdle():
                return self._run_event(session, event, context)
            case _:
                return []

    def _answer(self, session: Session, message: AssistantMessage, now: float) -> list[Effect]:
        unwanted = session.take_unwanted(message.parent_id)
        if unwanted is not None and not message.completed:
            context = self._context(session, now)
            return [stop_run(session, unwanted, context), Record(session.id, "abort", "its turn is over")]
        attempt = follow_assistant_message(session, message, now)
        if attempt is None or session.turn is None:
            return []
        return [
            *self.switching.gone_on(session),
            *self._signals.answer(session, session.turn, attempt, message, self._context(session, now)),
        ]

    def _run_event(self, session: Session, event: Event, context: Context) -> list[Effect]:
        match event:
            case events.SessionIdle() if isinstance(session.unseen, events.SessionStatus):
                session.unseen = None  # the retry wait is over: somebody stopped it
                return []
            case events.SessionIdle():
                return self._signals.idle(session, event.sequence)
            case events.SessionStatus() | events.SessionError() if session.turn is None:
                return self._read_first(session, event)
            case events.SessionStatus():
                return self._signals.status(session, event, context)
            case events.SessionError():
                return self._signals.error(session, event.error, context)
            case _:
                return []

    def _part(self, session: Session, event: events.MessagePartUpdated, context: Context) -> list[Effect]:
        turn = session.turn
        if turn is None:
            return []
        if event.part.type == "error":
            return self._signals.error_part(session, turn, event.part, context)
        attempt = follow_part(turn, event.part, context.now)
        return self._content(session, attempt, context) if attempt and attempt.silent else []

    def _content(self, session: Session, attempt: Attempt, context: Context) -> list[Effect]:
        """Take in the first sign of life of a step, and of a fallback."""
        attempt.silent = False
        session.asked_for = None
        return [
            *stop_timers(session)[:1],
            *context.stall_timer(session, attempt),
            *first_answer(session, attempt, self.health, context),
        ]

    def _read_first(self, session: Session, event: SessionEvent) -> list[Effect]:
        """Read the history before judging a failure of a turn whose beginning was not seen."""
        if isinstance(event, events.SessionError) and event.error.is_abort:
            session.unseen = None
            return []
        harmless = isinstance(event, events.SessionStatus) and event.status != "retry"
        if harmless or session.unseen is not None:
            return []
        session.unseen = event
        return [FetchMessages(session.id, 0)]

    def _judge_unseen(self, session: Session, outcome: Outcome, now: float) -> list[Effect]:
        """Judge a failure now that its turn is known, unless the turn has gone on since."""
        unseen, session.unseen = session.unseen, None
        if unseen is None or session.turn is not None or not isinstance(outcome, Fetched):
            return []
        waiting = session.queued
        turn = adopt_history(session, outcome.messages, now)
        gone_on = turn is None or len(turn.attempts) > 1 or (waiting and waiting.id == turn.message_id)
        return [] if gone_on else self._session_event(session, unseen, now)

    def _judge_silence(
        self, session: Session, effect: FetchMessages, outcome: Outcome, now: float
    ) -> list[Effect]:
        """Judge a silent turn by its history; a run that has not begun to ask its model gets more time."""
        session.looking = False
        turn, context = session.turn, self._context(session, now)
        if turn is None or turn.attempt.number != effect.attempt:
            return []
        for message in outcome.messages if isinstance(outcome, Fetched) else ():
            if isinstance(message.info, AssistantMessage) and message.info.parent_id == turn.message_id:
                follow_assistant_message(session, message.info, now)
        if turn.attempt.step is None:
            return context.first_token_timer(session, turn.attempt)
        fired = TimerFired(session.id, "first_token", effect.attempt)
        return self._silences.timer(session, fired, context)

    def _asking(self, request: ModelAttempt, now: float) -> tuple[Session, Context]:
        """Return the session that makes a request, and what is decided on it with."""
        session = self._sessions.setdefault(request.session_id, Session(request.session_id))
        session.last_seen = now
        of = session.turn.agent if session.turn and request.agent in HIDDEN else request.agent
        return session, self._context(session, now, agent=of)

    def _context(self, session: Session, now: float, agent: str | None = None) -> Context:
        of = agent or (session.turn.agent if session.turn else None)
        chain = chain_for(self.settings, of)
        return Context(
            self.settings,
            chain,
            now,
            self.host_kind,
            of,
            self.catalog,
            self.heard_since,
            self.tells_requests,
            self.chain_advice,
        )

    def _forget(self, session_id: str) -> list[Effect]:
        self.switching.in_flight.release(session_id)
        self._moved.pop(session_id, None)
        session = self._sessions.pop(session_id, None)
        return stop_timers(session) if session else []
