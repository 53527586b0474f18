"""The signs of a failure, and of the user's stop: each is judged once and handed on to a switch."""

from math import inf
from typing import Final

from fallback_plugin.events import AssistantMessage, HostError, Part, SessionStatus, UserMessage
from fallback_plugin.fallback.classify import Failure, classify, host_backoff_s
from fallback_plugin.fallback.context import Context, stop_run, stop_timers
from fallback_plugin.fallback.effects import (
    Effect,
    EndProbe,
    Record,
    Unrevert,
)
from fallback_plugin.fallback.first_answer import whole_answer
from fallback_plugin.fallback.guards import superseded
from fallback_plugin.fallback.no_chain import say_no_chain
from fallback_plugin.fallback.owing import owe, owes
from fallback_plugin.fallback.policy import leaves
from fallback_plugin.fallback.session import Attempt, RunState, Session, Turn, Unjudged, same_model
from fallback_plugin.fallback.shared_health import SessionHealth, SharedHealth
from fallback_plugin.fallback.state import FallbackState
from fallback_plugin.fallback.switching import Switching

CUT: Final = Failure(kind="transport", evidence="finish:unknown", cut_off=True)
"""OpenCode ends a step so when a stream stops without a finish reason, and asks again at once, for ever."""

HANDED_ON: Final = "fallback-plugin goes on"
"""Words of the error that the bridge file hands on in the place of a failure (hooks/opencode/failures.js)."""

EMPTY_ENDS: Final = frozenset({"stop", "length", "other"})
"""How a step ends a turn. One without text or tool call is no answer: at ``length`` it was all thoughts."""


def empty_answer(finish: str) -> Failure:
    """Return the failure of a step that ended so and said nothing."""
    return Failure(kind="empty_response", evidence=f"finish:{finish} without text or tool call")


class Signals:
    """Judges what a host shows of its runs."""

    def __init__(self, switching: Switching, health: SharedHealth) -> None:
        self._switching = switching
        self._health = health

    def user_message(self, session: Session, message: UserMessage, context: Context) -> list[Effect]:
        """See a finished turn's message published once more: nothing of it is left to come."""
        switch = session.switch
        settled = switch is not None and switch.idles and message.id == switch.turn.message_id
        return self._switching.settled(session, context) if settled else []

    def message_removed(self, session: Session, message_id: str) -> list[Effect]:
        """See a message leave the history: to run its turn again would make an empty one in its place."""
        turn, switch = session.turn, session.switch
        if session.queued is not None and message_id == session.queued.id:
            session.queued = None
        if turn is None or message_id != turn.message_id or turn.cancelled:
            return []
        ours = switch is not None and (switch.reverted or switch.phase == "reverting")
        if ours or turn.awaits(turn.attempt.model):
            return []  # it was taken back to be sent anew
        turn.removed = True
        return self._cancel(session, turn, "its message was removed", decision="turn over")

    def answer(
        self, session: Session, turn: Turn, attempt: Attempt, message: AssistantMessage, context: Context
    ) -> list[Effect]:
        """Judge an assistant message: an error, a cut or empty end, a step that begins."""
        if session.handed_in is not None and attempt is session.handed_in.attempt:
            session.handed_in = None
        if message.error is not None:
            return self._message_error(session, turn, attempt, message.error, context)
        if turn.cancelled and attempt is turn.attempt and not message.completed:
            return self._stop_at_its_beginning(session, attempt, context)
        if attempt is not turn.attempt or turn.cancelled:
            return []
        if message.finish == "unknown":
            return [*stop_timers(session), *self._cut(session, turn, attempt, context)]
        if message.completed:
            return self._completed(session, turn, attempt, message, context)
        if attempt.silent and message.id == attempt.step and not attempt.failed:
            return context.first_token_timer(session, attempt)
        return []

    def _cut(self, session: Session, turn: Turn, attempt: Attempt, context: Context) -> list[Effect]:
        """Judge a cut stream; with no model left, end the run that would ask this one again without end.

        A message that waits behind the turn is what such a run goes on with, so it is not ended then.
        """
        judged = self.failed(session, turn, attempt, CUT, context, run="running")
        goes_on = session.switch is not None or session.owed is not None or session.queued is not None
        if goes_on or not turn.exhaustion_said or context.never_replays:
            return judged
        if session.ledger.aborted(attempt.number):
            return judged
        reason = f"{attempt.model}: cut, and no other model is left"
        return [*judged, *self._abort(session, attempt, reason, context)]

    def _stop_at_its_beginning(self, session: Session, attempt: Attempt, context: Context) -> list[Effect]:
        """Stop a dispatched run of a turn the user stopped; the host forgets a stop that comes earlier."""
        if not attempt.dispatched or session.ledger.aborted(attempt.number):
            return []
        return self._abort(session, attempt, f"{attempt.model}: the user stopped before it began", context)

    @staticmethod
    def _abort(session: Session, attempt: Attempt, reason: str, context: Context) -> list[Effect]:
        """Stop an attempt's run, written down as ours."""
        return [stop_run(session, attempt.number, context), Record(session.id, "abort", reason)]

    def _completed(
        self, session: Session, turn: Turn, attempt: Attempt, message: AssistantMessage, context: Context
    ) -> list[Effect]:
        quiet = stop_timers(session)
        if message.finish is None:
            # An abort ends a retry wait so, without a finish and without an error.
            if attempt.retrying and not session.ledger.aborted(attempt.number):
                return self._cancel(session, turn, "stopped in a retry wait, and not by us")
            return quiet
        # OpenCode may show a message as finished before its parts: only the step's own end counts.
        unspoken = message.id == attempt.step and attempt.finished and not attempt.spoken
        if message.finish in EMPTY_ENDS and unspoken and not turn.compacting:
            empty = empty_answer(message.finish)
            return [*quiet, *self.failed(session, turn, attempt, empty, context, run="finished")]
        return [*quiet, *whole_answer(session, attempt, context)]

    def error_part(self, session: Session, turn: Turn, part: Part, context: Context) -> list[Effect]:
        """Judge a part that holds an error in place of content."""
        attempt = turn.steps.get(part.message_id)
        if attempt is None:
            return []
        failure = self._classify(HostError(name="", message=part.text or ""), turn, attempt, context)
        return self.failed(session, turn, attempt, failure, context, run="running")

    def grew(self, session: Session, message_id: str, context: Context) -> list[Effect]:
        """See that an answer grows."""
        attempt = session.turn.steps.get(message_id) if session.turn else None
        if attempt is not None and attempt.step == message_id:
            attempt.grew_at = context.now
        return []

    def status(self, session: Session, event: SessionStatus, context: Context) -> list[Effect]:
        """Judge a run's status: a retry wait is the only early sign of most failures."""
        turn = session.turn
        if turn is None or turn.cancelled or event.status == "idle":
            return []
        if event.status == "busy" and not turn.running:
            return []  # some hosts say so before they show the message whose run begins
        turn.running = True
        attempt = turn.attempt
        if attempt.retrying and event.status == "busy":
            attempt.asked_at = context.now
        attempt.retrying = event.status == "retry" and attempt.begun
        if event.status == "busy":
            waiting = attempt.silent and attempt.begun and not attempt.failed and session.switch is None
            return context.first_token_timer(session, attempt) if waiting else []
        if not attempt.begun:
            return []
        if attempt.failed:
            pending = session.owed is not None and not session.ledger.aborted(attempt.number)
            ended = self._end_run(session, attempt, context, "waiting") if pending else []
            back = [] if pending else self._switching.come_back(session, turn, context)
            return [*stop_timers(session), *ended, *back]
        failure = self._classify(HostError(name="", message=event.message), turn, attempt, context)
        wait_s = (event.next_at or context.now) - context.now
        if wait_s > host_backoff_s(event.attempt):  # a shorter one is the host's own
            failure = failure.with_host_wait(wait_s)
        tries = event.attempt - 1
        failed = self.failed(session, turn, attempt, failure, context, run="waiting", tries=tries)
        return [*stop_timers(session), *failed]

    def idle(self, session: Session, sequence: int | None) -> list[Effect]:
        """See a run end; while a switch is open, count whose end it was."""
        session.ledger.idle()
        return [*self._show_again(session), *self._run_ended(session, sequence)]

    @staticmethod
    def _show_again(session: Session) -> list[Effect]:
        """Show what was taken back for nothing; the host refuses that as long as it works."""
        switch = session.switch
        in_use = switch is not None and (switch.reverted or switch.phase == "reverting")
        return [Unrevert(session.id)] if session.hides and not in_use else []

    def _run_ended(self, session: Session, sequence: int | None) -> list[Effect]:
        turn, switch = session.turn, session.switch
        counted = switch or session.handed_in
        if counted is not None and counted.turn is not turn:
            counted = None  # the run of the user's next message has ended
        if counted is not None:
            counted.idles.append(sequence)
        if turn is None:
            return []
        sent = counted.attempt if counted else None
        if counted is not None and counted.stopped_by_user() and not (turn.cancelled or (sent and sent.step)):
            return self._cancel(session, turn, "an idle more than our abort accounts for")
        if (switch is None or switch.turn is not turn) and not turn.awaiting_result:
            turn.running = False
            return stop_timers(session)
        return []

    def error(self, session: Session, error: HostError, context: Context) -> list[Effect]:
        """Judge an error of the session, which names neither model nor message."""
        turn = session.turn
        if turn is None:
            return []
        attempt, switch = turn.attempt, session.switch
        if switch is not None and (
            attempt is switch.failed_attempt or (error.is_abort and switch.hits(turn))
        ):
            switch.run = "running" if error.is_abort and switch.run != "over" else "over"
            switch.abort_reported = switch.abort_reported or error.is_abort
        if error.is_abort:
            ours = session.ledger.may_still_report(context.now)
            return [] if ours else self._foreign_abort(session, turn, attempt, context)
        if not attempt.begun:
            return []  # the host shows a new model's turn before its failure
        return self._error(session, turn, attempt, error, context)

    def _message_error(
        self, session: Session, turn: Turn, attempt: Attempt, error: HostError, context: Context
    ) -> list[Effect]:
        if not error.is_abort:
            return self._error(session, turn, attempt, error, context)
        if attempt is not turn.attempt or session.ledger.aborted(attempt.number):
            return []
        switch = session.switch
        if switch is not None and switch.hits(turn) and not turn.cancelled:
            # Its message is what the run had gone on with, and is sent to the next model.
            attempt.failed = True
            switch.go_on_with(turn)
            if session.state is not None:
                session.state.follow(switch.plan.failed, context.chain, advances=0)
            return []
        return self._foreign_abort(session, turn, attempt, context)

    def _foreign_abort(
        self, session: Session, turn: Turn, attempt: Attempt, context: Context
    ) -> list[Effect]:
        if turn.cancelled:
            return []
        if context.settings.fallback.on_foreign_abort == "stop":
            return self._cancel(session, turn, "aborted, and not by us")
        failure = Failure(kind="unknown", evidence="name:MessageAbortedError")
        return self.failed(session, turn, attempt, failure, context, tries=inf)

    def abort_requested(self, session: Session, context: Context) -> list[Effect]:
        """See the host be asked to stop the session's turn; it tells nothing of a stop in an ending run."""
        turn = session.turn
        session.unseen = None  # whatever was seen of a turn we know nothing of, it is over
        if turn is None or turn.cancelled or context.settings.fallback.on_foreign_abort != "stop":
            return []
        return self._cancel(session, turn, "the host was asked to stop it, and not by us")

    def _cancel(
        self, session: Session, turn: Turn, reason: str, *, decision: str = "user stopped"
    ) -> list[Effect]:
        """Take the user's word: nothing is sent until their next message."""
        session.stop_turn(turn)
        model = turn.attempt.model
        probing = self._health.half_open(model) is not None
        given_back: list[Effect] = [EndProbe(session.id, model)] if probing else []
        return [*stop_timers(session), *given_back, Record(session.id, decision, reason)]

    def _error(
        self, session: Session, turn: Turn, attempt: Attempt, error: HostError, context: Context
    ) -> list[Effect]:
        if attempt.failed:
            return []
        if HANDED_ON in error.message and owes(context, session):
            attempt.failed = True  # it was asked about the request, and sends the turn again
            return [Record(session.id, "no switch: another instance has it", str(attempt.model))]
        # The error that ends a turn of our own host names the reasons of all its models.
        failure = attempt.judged or self._classify(error, turn, attempt, context)
        return self.failed(session, turn, attempt, failure, context, tries=inf if error.is_retryable else 0)

    def _classify(self, error: HostError, turn: Turn, attempt: Attempt, context: Context) -> Failure:
        rules = context.settings.fallback.rules
        provider = attempt.model.provider
        return classify(error, context.now, rules=rules, provider=provider, compacting=turn.compacting)

    def failed(
        self,
        session: Session,
        turn: Turn,
        attempt: Attempt,
        failure: Failure,
        context: Context,
        *,
        run: RunState = "over",
        tries: float = 0,
    ) -> list[Effect]:
        """Answer a failure once. ``tries`` is how often the host has asked the model again already."""
        if session.switch is not None:
            if session.switch.turn is not turn and attempt is turn.attempt:
                session.unjudged = Unjudged(turn, attempt, failure, run, tries)
            return []
        return self._judge(session, Unjudged(turn, attempt, failure, run, tries), context)

    def judge_at_last(self, session: Session, context: Context) -> list[Effect]:
        """Answer the failure that had to wait for the switch of an earlier turn, once that has given way."""
        waited = session.unjudged
        if waited is None or session.switch is not None:
            return []
        session.unjudged = None
        is_past = waited.run == "waiting" and not waited.attempt.retrying  # the host asks it again
        return [] if is_past or waited.turn is not session.turn else self._judge(session, waited, context)

    def _judge(self, session: Session, found: Unjudged, context: Context) -> list[Effect]:
        turn, attempt, failure, run = found.turn, found.attempt, found.failure, found.run
        if attempt is not turn.attempt or attempt.failed or turn.cancelled:
            return []
        if session.state is not None and superseded(session.state, attempt.model):
            return []
        verdict = context.verdict(failure, attempt.model)
        again = found.tries + turn.asked_again < verdict.retries
        if not again and not leaves(failure, verdict):
            return [Record(session.id, f"no switch: {verdict.action}", f"{attempt.model}: {failure.kind}")]
        if obstacle := _obstacle(session, turn, attempt, run):
            return [obstacle]
        if not context.chain:
            return say_no_chain(session, attempt.model, failure, context)
        if session.state is None:
            session.state = FallbackState.on(turn.attempts[0].model, SessionHealth(self._health, session.id))
            session.state.follow(attempt.model, context.chain, advances=len(turn.attempts) - 1)
        if owes(context, session):
            return [*owe(session, turn, failure, run), *self._end_run(session, attempt, context, run)]
        if again:
            return self._ask_again(session, turn, failure, context, run=run)
        return self._switching.begin(session, turn, failure, context, run=run)

    @staticmethod
    def _end_run(session: Session, attempt: Attempt, context: Context, run: RunState) -> list[Effect]:
        """End a run that would go on asking the model it owes an answer of."""
        if run not in {"waiting", "running"}:
            return []
        return [stop_run(session, attempt.number, context)]

    def _ask_again(
        self, session: Session, turn: Turn, failure: Failure, context: Context, *, run: RunState
    ) -> list[Effect]:
        """Have the model asked once more: by the host, if it is about to, else by us."""
        if run != "waiting":
            return self._switching.begin_again(session, turn, failure, context, run=run)
        return [Record(session.id, "waiting", f"{turn.attempt.model}: the host asks it again")]


def _obstacle(session: Session, turn: Turn, attempt: Attempt, run: RunState) -> Record | None:
    """Return why a failed turn must not be sent again by us, whatever its chain."""
    if session.parent_id is not None and run != "finished":
        return Record(session.id, "no switch: child", "the host retries it, or tells its parent")
    if turn.compacting and turn.user is not None and not same_model(attempt.model, turn.user.model):
        return Record(session.id, "no switch: pinned", "the host's config fixes the compaction's model")
    return None
