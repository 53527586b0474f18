"""A failed request of a turn, answered by the next model before the host hears of it.

The run goes on and nothing is sent again, so there is nothing to stop and nothing to repeat; the host takes
the new model's answer for the first one's. Where the next model is out of the request's reach, the failure is
handed on and the turn is replayed.
"""

from dataclasses import dataclass
from typing import Final

from fallback_plugin.fallback import toasts
from fallback_plugin.fallback.attempt_failure import attempt_failure
from fallback_plugin.fallback.classify import Failure
from fallback_plugin.fallback.context import Context, stop_timers
from fallback_plugin.fallback.effects import NOT_INLINE, Effect, Record
from fallback_plugin.fallback.follow import BESIDE, COMPACTION_AGENT, begin_unseen_turn
from fallback_plugin.fallback.no_chain import say_no_chain
from fallback_plugin.fallback.owing import owe, owes
from fallback_plugin.fallback.policy import leaves
from fallback_plugin.fallback.session import Attempt, Session, Turn, same_model, sign_of
from fallback_plugin.fallback.shared_health import SessionHealth, SharedHealth
from fallback_plugin.fallback.state import FallbackState, Plan, Planned, Unfit
from fallback_plugin.hookspecs import ModelAttempt, NextModel
from fallback_plugin.model_ref import ModelRef

HIDDEN: Final = BESIDE | {COMPACTION_AGENT}
"""Agents of the host's own; their chain is that of the turn they work for."""

OUT_OF_REACH: Final = "cannot take this request over"

Answer = tuple[NextModel | None, list[Effect]]
NOTHING: Final[Answer] = (None, [])


class Inline:
    """Answers failed requests; a session's turn moves on with them."""

    def __init__(self, health: SharedHealth) -> None:
        self._health = health

    def answer(self, session: Session, request: ModelAttempt, context: Context) -> Answer:
        """Return whom to ask instead; None hands the failure to the host."""
        failure = failure_of(request, context)
        if request.agent in BESIDE:
            return self._beside(session, request, failure, context)
        turn = _turn(session, request, context)
        owing = owes(context, session)
        if turn is not None and context.never_replays and same_model(turn.attempt.model, request.model):
            turn.attempt.judged = failure
        if turn is not None and not context.chain:
            verdict = context.verdict(failure, request.model)
            is_ours = verdict.retries or leaves(failure, verdict)
            return None, say_no_chain(session, request.model, failure, context) if is_ours else []
        if turn is None or not (_wanted(session, request, context) or owing):
            return NOTHING
        attempt = turn.attempt
        if attempt.failed:
            return ("final" if owing else None), []
        if not same_model(attempt.model, request.model):
            if any(same_model(each.model, request.model) for each in turn.attempts):
                return _in_its_place(attempt, request), []
            # Nobody here had moved the turn on to it: that process of ours is gone.
            attempt.failed = True
            attempt = _take_over(session, turn, attempt, request.model, request=request, now=context.now)
        if session.state is None:
            session.state = FallbackState.on(attempt.model, SessionHealth(self._health, session.id))
        session.state.follow(attempt.model, context.chain, advances=len(turn.attempts) - 1)
        return self._judge(_Case(session, turn, session.state, failure, request, context))

    @staticmethod
    def _judge(case: "_Case") -> Answer:
        """Judge the failure of the model that the turn is on."""
        context, request, session = case.context, case.request, case.session
        planned = case.next()
        if planned is None:
            return NOTHING
        if isinstance(planned, Plan) and case.reaches(planned) and _wanted(session, request, context):
            return planned.model, case.switch(planned)
        if owes(context, session):
            owed = owe(session, case.turn, case.failure, request.ending)
            return "final", [*case.refusal(planned), *owed]
        # A silence would be reported as a stop; half an answer in a subagent be asked for without end, unless
        # an error broke it off.
        unsaid = request.ending == "broken" and not (request.error.message or request.error.response_body)
        told = request.ending == "silent" or (unsaid and session.parent_id is not None)
        return ("final" if told else None), case.refusal(planned)

    def _beside(self, session: Session, request: ModelAttempt, failure: Failure, context: Context) -> Answer:
        """Answer a request that no turn waits for; it moves no session's model."""
        verdict = context.verdict(failure, request.model)
        if context.settings.fallback.switching == "replay" or not leaves(failure, verdict):
            return NOTHING
        state = FallbackState.on(request.model, SessionHealth(self._health, session.id))
        planned = _plan_beside(session, state, request, context)
        if not isinstance(planned, Plan):
            return NOTHING
        reason = f"{request.agent}: {request.model}: {failure.kind} by {failure.evidence}"
        return planned.model, [
            *context.close(session, request.model, failure),
            Record(session.id, "switch beside the turn", reason),
        ]

    def redirect(
        self, session: Session, request: ModelAttempt, context: Context
    ) -> tuple[ModelRef | None, list[Effect]]:
        """Return whom a request that no turn waits for goes to while its model rests; None for its own."""
        state = FallbackState.on(request.model, SessionHealth(self._health, session.id))
        if context.settings.fallback.switching == "replay" or not state.cooling(request.model, context.now):
            return None, []
        planned = _plan_beside(session, state, request, context)
        if not isinstance(planned, Plan):
            return None, []
        reason = f"{request.agent}: {request.model}: closed"
        return planned.model, [Record(session.id, "redirect beside the turn", reason)]


@dataclass(frozen=True, slots=True)
class _Case:
    """A failed request of a turn, with all that is known of it."""

    session: Session
    turn: Turn
    state: FallbackState
    failure: Failure
    request: ModelAttempt
    context: Context

    def next(self) -> Planned | None:
        """Say what the policy wants; None if the failure is the host's to handle."""
        verdict = self.context.verdict(self.failure, self.turn.attempt.model)
        if self.turn.asked_again < verdict.retries:
            return self.state.again()
        return self._plan() if leaves(self.failure, verdict) else None

    def reaches(self, plan: Plan) -> bool:
        """Tell whether the plan's model can answer this very request: none can that was answered in part."""
        return self.request.ending != "broken" and _reaches(self.request, plan.model)

    def refusal(self, planned: Planned) -> list[Effect]:
        """Say why the planned model does not answer this very request."""
        if not isinstance(planned, Plan) or not _wanted(self.session, self.request, self.context):
            return []
        if self.request.ending == "broken":
            reason = "the answer had begun"
        elif planned.model.variant is not None:
            reason = "a variant needs another request"
        else:
            reason = self.request.obstacle or "another SDK, or a provider with a login or without a known key"
        return [Record(self.session.id, NOT_INLINE, f"{planned.model}: {reason}")]

    def _plan(self) -> Planned:
        """Plan the next step; of a subagent's turn, which is never replayed, past whom it cannot reach."""
        context, request = self.context, self.request
        unfit = context.unfit(self.session, self.turn, self.failure)
        if self.session.parent_id is not None:
            unfit = _reachable_only(unfit, request)
        planned = self._step(unfit)
        if isinstance(planned, Plan) and _reaches(request, planned.model):
            return self._step(_probed_elsewhere(unfit, self.state.health))
        return planned

    def _step(self, unfit: Unfit) -> Planned:
        context = self.context
        max_attempts = context.settings.fallback.max_attempts
        return self.state.plan(context.chain, context.now, max_attempts=max_attempts, unfit=unfit)

    def switch(self, plan: Plan) -> list[Effect]:
        """Take the plan's model as the one that answers from now on, under the name the host knows."""
        session, turn, failure, context = self.session, self.turn, self.failure, self.context
        failed = turn.attempt
        self.state.commit(plan)
        failed.failed = True
        turn.reasons[failed.model] = failure
        attempt = _take_over(session, turn, failed, plan.model, request=self.request, now=context.now)
        sign = sign_of(self.request.ending, failure)
        if plan.retries:
            said, closed = toasts.retrying(failed.model, failure), []
        else:
            said = toasts.switching(failed.model, failure, plan.model)
            closed = context.close(session, failed.model, failure)
        return [
            *stop_timers(session),
            *closed,
            Record.of_step(session.id, turn.message_id, sign, failure, plan, closed=closed, how=", inline"),
            # A run prints its notes: one line, once the next model answers.
            *(context.toast(session, said) if context.host_kind != "run" else []),
            *context.first_token_timer(session, attempt),
        ]


def _plan_beside(session: Session, state: FallbackState, request: ModelAttempt, context: Context) -> Planned:
    """Say which other model a request that no turn waits for goes to."""
    unfit = _not_tried(_reachable_only(context.unfit(session), request), request)
    unfit = _probed_elsewhere(unfit, state.health)
    return state.plan(context.chain, context.now, max_attempts=1, unfit=unfit)


def _wanted(session: Session, request: ModelAttempt, context: Context) -> bool:
    """Tell whether a request is to be answered inline; a compaction's always where that is allowed at all."""
    compacting = request.agent == COMPACTION_AGENT and context.settings.fallback.switching != "replay"
    return compacting or context.inline(session)


def _in_its_place(attempt: Attempt, request: ModelAttempt) -> ModelRef | None:
    """Return the model a turn has moved on to, for a request that was sent to the one it has left."""
    named = same_model(attempt.shown, request.host_model)
    stands_in = named and attempt.model not in request.tried and _reaches(request, attempt.model)
    return attempt.model if stands_in else None


def failure_of(request: ModelAttempt, context: Context) -> Failure:
    """Return what a request failed of."""
    rules = context.settings.fallback.rules
    return attempt_failure(request.model, request.error, request.ending, context.now, rules=rules)


def _turn(session: Session, request: ModelAttempt, context: Context) -> Turn | None:
    """Return the turn that a request is of, None if it is over, stopped, or being switched already.

    The request itself shows which message the host works on, whatever its events have shown so far. Where
    the turn could have to be replayed, one that was not seen is left to the replay, which reads the history
    first: a message may wait behind it.
    """
    turn = session.turn
    if session.switch is not None:
        return None
    if turn is None or turn.message_id != request.message_id:
        if turn is None and not context.never_replays:
            return None
        queued = session.queued is not None and session.queued.id == request.message_id
        if not (queued or context.never_replays):
            return None
        model = request.tried[0] if request.tried else request.model
        turn = begin_unseen_turn(
            session, request.message_id, model, request.agent, context.now, seen_at=context.now
        )
    return None if turn is None or turn.cancelled else turn


def _take_over(
    session: Session, turn: Turn, failed: Attempt, model: ModelRef, *, request: ModelAttempt, now: float
) -> Attempt:
    """Begin the next attempt in the place of one that failed: OpenCode shows no new step for it."""
    attempt = session.new_attempt(model, dispatched=True)
    attempt.begun = True
    attempt.awaited = request.awaited
    session.asked_for = turn.message_id
    turn.attempts.append(attempt)
    if not request.is_fixed:
        attempt.asked_at = now
        return attempt
    attempt.named = failed.shown
    if failed.step is not None:
        attempt.begin_step(failed.step)
        turn.steps[failed.step] = attempt
    attempt.asked_at = now
    return attempt


def _reaches(request: ModelAttempt, model: ModelRef) -> bool:
    """Tell whether a request can be sent to a model: a variant would need another body."""
    return (model.variant is None or not request.is_fixed) and any(
        same_model(model, each) for each in request.reachable
    )


def _reachable_only(unfit: Unfit, request: ModelAttempt) -> Unfit:
    return lambda model: unfit(model) or (None if _reaches(request, model) else OUT_OF_REACH)


def _not_tried(unfit: Unfit, request: ModelAttempt) -> Unfit:
    return lambda model: unfit(model) or ("failed this request" if model in request.tried else None)


def _probed_elsewhere(unfit: Unfit, health: SessionHealth) -> Unfit:
    return lambda model: unfit(model) or (None if health.may_ask(model) else "somebody else probes it")
