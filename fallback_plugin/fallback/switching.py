"""A switch from the failed model to the next: abort, read if need be, dispatch, confirm.

Each step returns effects and ends with a mark on the session or with `Switching.release`, so that no outcome
leaves a session in flight.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from fallback_plugin.fallback import toasts
from fallback_plugin.fallback.chain import Chain
from fallback_plugin.fallback.classify import Failure
from fallback_plugin.fallback.effects import (
    Abort,
    Done,
    Effect,
    Failed,
    Fetched,
    FetchMessages,
    Outcome,
    Prompt,
    Record,
    StartTimer,
    Toast,
)
from fallback_plugin.fallback.guards import RetryInFlight
from fallback_plugin.fallback.replay import Replay, turn_to_replay
from fallback_plugin.fallback.session import Attempt, RunState, Session, Switch, Turn
from fallback_plugin.fallback.state import FallbackState, Refusal
from fallback_plugin.host_client import Receipt
from fallback_plugin.model_ref import ModelRef
from fallback_plugin.settings import ModelSettings, Settings
from fallback_plugin.wire.toast import Toast as ToastBody

IDLES: Final[Mapping[RunState, int]] = {"waiting": 1, "running": 2, "over": 3}
"""Idles a failed run and our abort of it make together (OpenCode 1.18.33, 174 runs): the abort of a retry
wait makes one, that of a running request two; a run that failed for good makes two before the abort's own."""


@dataclass(frozen=True, slots=True)
class Context:
    """What a decision is made with: the settings, the session's chain, and the time."""

    settings: Settings
    chain: Chain
    now: float

    def toast(self, session: Session, toast: ToastBody) -> list[Effect]:
        """Return a toast, unless the person wants none."""
        return [Toast(session.id, toast)] if self.settings.fallback.notify else []


class Switching:
    """Carries switches through; at most one a session is in flight."""

    def __init__(self) -> None:
        self.in_flight = RetryInFlight()

    def begin(
        self, session: Session, turn: Turn, failure: Failure, context: Context, *, run: RunState
    ) -> list[Effect]:
        """Answer the failure of the turn's attempt: stop its run, or say that no model is left."""
        attempt = turn.attempt
        state = session.state = self._state_on(session, attempt)
        usable_at = context.now + max(_cooldown_s(context.settings, attempt), failure.retry_after_s or 0.0)
        turn.reasons[attempt.model] = failure
        attempt.failed = True
        plan = state.plan(context.chain, context.now, max_attempts=context.settings.fallback.max_attempts)
        if isinstance(plan, Refusal):
            state.mark_failed(attempt.model, usable_at=usable_at)
            return self._exhausted(session, turn, plan, context)
        if not self.in_flight.claim(session.id):
            attempt.failed = False
            return []
        turn.running = True
        session.switch = Switch(
            turn=turn,
            plan=plan,
            failure=failure,
            failed_attempt=attempt,
            usable_at=usable_at,
            run=run,
        )
        session.ledger.open(attempt.number, context.now)
        return [
            Abort(session.id, attempt.number),
            Record(session.id, "abort", f"{attempt.model}: {failure.kind} by {failure.evidence}"),
        ]

    def finished_abort(
        self, session: Session, effect: Abort, outcome: Outcome, context: Context
    ) -> list[Effect]:
        """Dispatch the next model now that the failed run is over."""
        session.ledger.answered(effect.attempt, context.now)
        switch = session.switch
        if switch is None or switch.phase != "aborting":
            return []
        if isinstance(outcome, Failed):
            session.ledger.withdraw(effect.attempt)
            switch.failed_attempt.failed = False
            return self._give_up(session, switch, f"the host did not stop its run: {outcome.reason}", context)
        receipt = outcome.receipt if isinstance(outcome, Done) else Receipt()
        if stopped_by_user(switch, receipt):
            switch.turn.cancelled = True
        return self._dispatch(session, switch, context)

    def finished_fetch(self, session: Session, outcome: Outcome, context: Context) -> list[Effect]:
        """Dispatch with what the history told."""
        switch = session.switch
        if switch is None or switch.phase != "reading":
            return []
        if not isinstance(outcome, Fetched):
            reason = outcome.reason if isinstance(outcome, Failed) else "no answer"
            return self._give_up(session, switch, f"the history could not be read: {reason}", context)
        stored = turn_to_replay(outcome.messages, switch.turn.message_id)
        if stored is None:
            return self._give_up(session, switch, "the session holds no message to send again", context)
        if switch.replay is None:
            switch.turn.user = stored.user
            switch.turn.message_id = stored.user.id
            return self._dispatch(session, switch, context)
        switch.replay.offer(stored.parts)
        switch.phase = "dispatching"
        return self._next_tier(session, switch, context)

    def finished_prompt(
        self, session: Session, effect: Prompt, outcome: Outcome, context: Context
    ) -> list[Effect]:
        """Take the new model as the current one, or try what is left after a refusal."""
        switch, state = session.switch, session.state
        attempt = switch.attempt if switch else None
        if switch is None or attempt is None or state is None or effect.attempt != attempt.number:
            return []
        refused = isinstance(outcome, Failed) and outcome.status is not None
        if refused and switch.over(session.turn) is None:
            return self._next_tier(session, switch, context)
        reason = switch.over(session.turn)
        if reason is None and not state.commit(switch.plan, usable_at=switch.usable_at):
            reason = "the session runs on another model already"
        dropped = switch.replay.dropped if switch.replay else frozenset()
        self.release(session)
        if reason is not None:
            newer = session.turn if session.turn is not switch.turn else None
            if refused or (newer is not None and newer.running):
                return []  # nothing was begun, or what runs is the user's newer turn
            return self._stop(session, attempt, reason, context)
        accepted = "accepted" if isinstance(outcome, Done) else "not answered, may have been accepted"
        effects: list[Effect] = [Record(session.id, "dispatched", f"{attempt.model}: {accepted}")]
        if not attempt.answered:
            effects += first_token_timer(session, attempt, context.settings)
        if dropped:
            effects += context.toast(session, toasts.degraded(attempt.model, dropped))
        return effects

    def release(self, session: Session) -> None:
        """End the switch, whatever came of it."""
        session.switch = None
        self.in_flight.release(session.id)
        if session.state:
            session.state.pending = None

    def _state_on(self, session: Session, attempt: Attempt) -> FallbackState:
        state = session.state or FallbackState.on(attempt.model)
        if state.current != attempt.model:
            state.current = attempt.model
        return state

    def _dispatch(self, session: Session, switch: Switch, context: Context) -> list[Effect]:
        if reason := switch.over(session.turn):
            self.release(session)
            return [Record(session.id, "no prompt", reason)]
        if session.queued is not None:
            switch.turn = session.begin_turn(session.queued)
        turn = switch.turn
        if turn.user is None:
            switch.phase = "reading"
            return [FetchMessages(session.id, switch.failed_attempt.number)]
        attempt = switch.attempt = session.new_attempt(switch.plan.model, begun=False)
        turn.attempts.append(attempt)
        if session.state:
            session.state.pending = attempt.model
        switch.phase = "dispatching"
        switch.replay = Replay(turn.user, attempt.model)
        return [
            Prompt(session.id, attempt.number, switch.replay.first()),
            *context.toast(session, toasts.switching(switch.plan.failed, switch.failure, attempt.model)),
        ]

    def _next_tier(self, session: Session, switch: Switch, context: Context) -> list[Effect]:
        """Send what is left to send; with nothing left, the refusal is a failure of the model it named."""
        attempt = switch.turn.attempt
        if switch.replay is None or switch.replay.needs_parts:
            switch.phase = "reading"
            return [FetchMessages(session.id, attempt.number)]
        body = switch.replay.next()
        if body is not None:
            return [Prompt(session.id, attempt.number, body)]
        if session.state:
            session.state.commit(switch.plan, usable_at=switch.usable_at)
        self.release(session)
        refused = Failure(kind="bad_request", evidence="prompt refused by the host")
        return self.begin(session, switch.turn, refused, context, run="over")

    def _stop(self, session: Session, attempt: Attempt, reason: str, context: Context) -> list[Effect]:
        session.ledger.open(attempt.number, context.now)
        return [Abort(session.id, attempt.number), Record(session.id, "abort", f"{attempt.model}: {reason}")]

    def _give_up(self, session: Session, switch: Switch, reason: str, context: Context) -> list[Effect]:
        self.release(session)
        return [
            *context.toast(session, toasts.stuck(switch.plan.failed, reason)),
            Record(session.id, "gave up", reason),
        ]

    def _exhausted(self, session: Session, turn: Turn, refusal: Refusal, context: Context) -> list[Effect]:
        if turn.exhaustion_said:
            return []
        turn.exhaustion_said = True
        return [
            *context.toast(session, toasts.exhausted(turn.reasons, session.cooling(context.now))),
            Record(session.id, "exhausted", refusal.reason),
        ]


def stopped_by_user(switch: Switch, receipt: Receipt | None = None) -> bool:
    """Tell whether somebody else aborted the session while we did.

    Every abort makes idles of its own (`IDLES`), all of them before its answer. One that came before our call
    was sent, to a run that was not over by itself, is another's; and so is one more than ours accounts for.
    """
    sent_after = receipt.sent_after if receipt else None
    early = sent_after is not None and any(idle is not None and idle <= sent_after for idle in switch.idles)
    return (early and switch.run != "over") or len(switch.idles) > IDLES[switch.run]


def first_token_timer(session: Session, attempt: Attempt, settings: Settings) -> list[Effect]:
    """Return the timer that gives an attempt's model its time to begin; none if it is switched off."""
    own = _own_settings(settings, attempt.model).first_token_timeout
    timeout_s = settings.fallback.first_token_timeout if own is None else own
    return [StartTimer(session.id, "first_token", attempt.number, timeout_s)] if timeout_s > 0 else []


def _cooldown_s(settings: Settings, attempt: Attempt) -> float:
    own = _own_settings(settings, attempt.model).cooldown
    return settings.fallback.cooldown if own is None else own


def _own_settings(settings: Settings, model: ModelRef) -> ModelSettings:
    """Return what is set for a model with its variant, else without."""
    plain = replace(model, variant=None)
    return settings.models.get(model) or settings.models.get(plain) or ModelSettings()
