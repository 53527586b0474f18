"""The silence of a model: when it counts as a failure, and how the model is left then.

A host that tells when it asks a model has all its time until then; else the beginning of the step counts.
"""

from fallback_plugin.fallback import toasts
from fallback_plugin.fallback.classify import Failure
from fallback_plugin.fallback.context import LONGEST_UNASKED_S, Context
from fallback_plugin.fallback.effects import (
    Effect,
    Failed,
    FetchMessages,
    GiveUp,
    Outcome,
    Record,
    TimerFired,
)
from fallback_plugin.fallback.follow import COMPACTION_AGENT
from fallback_plugin.fallback.policy import leaves
from fallback_plugin.fallback.session import Attempt, RunState, Session, Turn
from fallback_plugin.fallback.shared_health import SessionHealth, SharedHealth
from fallback_plugin.fallback.signals import Signals
from fallback_plugin.fallback.state import FallbackState, Plan
from fallback_plugin.fallback.switching import Switching


class Silences:
    """Judges silences, and hands those that are failures on to `Signals`."""

    def __init__(self, signals: Signals, switching: Switching, health: SharedHealth) -> None:
        self._signals = signals
        self._switching = switching
        self._health = health

    def timer(self, session: Session, fired: TimerFired, context: Context) -> list[Effect]:
        """Judge a silence when its time is up."""
        turn = session.turn
        if turn is None or turn.attempt.number != fired.attempt:
            return []
        attempt = turn.attempt
        if fired.name == "first_token":
            if not attempt.silent:
                return []
            if context.tells_requests and session.asked_for != turn.message_id:
                return self._unasked(session, turn, attempt, context)
            return self._silence(session, turn, attempt, context)
        quiet_s = 0.0 if attempt.tools_running else context.now - max(attempt.grew_at, context.heard_since)
        if quiet_s < context.stall_timeout_s(attempt.model):
            return context.stall_timer(session, attempt, quiet_s)
        return self._silent(session, turn, attempt, "stalled in mid-stream", context)

    def model_requested(self, session: Session, message_id: str, context: Context) -> list[Effect]:
        """See the host ask a model, which has its time from now on."""
        session.asked_for = message_id
        turn = session.turn
        if turn is None or turn.message_id != message_id or turn.cancelled or session.switch is not None:
            return []
        attempt = turn.attempt
        attempt.unasked_s = 0.0
        return context.first_token_timer(session, attempt) if attempt.silent and not attempt.failed else []

    def _unasked(self, session: Session, turn: Turn, attempt: Attempt, context: Context) -> list[Effect]:
        """Wait on for a host that has not asked the model: the silence is not the model's."""
        attempt.unasked_s += context.first_token_timeout_s(attempt.model)
        if attempt.unasked_s < LONGEST_UNASKED_S:
            return context.first_token_timer(session, attempt)
        return self._silence(session, turn, attempt, context)

    def _silence(self, session: Session, turn: Turn, attempt: Attempt, context: Context) -> list[Effect]:
        if attempt.step is None and not attempt.dispatched:
            # OpenCode never recovers from an abort before its first assistant message: look for that first.
            session.looking = True
            return [FetchMessages(session.id, attempt.number)]
        return self._silent(session, turn, attempt, "no first token", context)

    def _silent(
        self, session: Session, turn: Turn, attempt: Attempt, evidence: str, context: Context
    ) -> list[Effect]:
        """Leave a silent model by its request where that can be; what flows, if nothing else helps."""
        stuck = context.ends_at_idle or context.never_replays or session.parent_id is not None
        if context.inline(session) and (stuck or attempt.silent) and not attempt.failed:
            if not self._may_go_on(session, turn, context):
                return self._wait_on(session, turn, evidence, context)
            agent = COMPACTION_AGENT if turn.compacting else turn.agent
            return [GiveUp(session.id, attempt.number, agent, evidence, flowing=stuck)]
        silent = Failure(kind="timeout", evidence=evidence)
        return self._signals.failed(session, turn, attempt, silent, context, run="running")

    def _may_go_on(self, session: Session, turn: Turn, context: Context) -> bool:
        """Tell whether leaving a silent model's request brings an answer: from another model, or a retry."""
        model, silent = turn.attempt.model, Failure(kind="timeout")
        verdict = context.verdict(silent, model)
        if not context.chain:
            return False
        if turn.asked_again < verdict.retries:
            return True
        if not leaves(silent, verdict):
            return False
        if session.state is None:
            session.state = FallbackState.on(model, SessionHealth(self._health, session.id))
        session.state.follow(model, context.chain, advances=len(turn.attempts) - 1)
        return isinstance(self._switching.plan(session, turn, session.state, silent, context), Plan)

    def _wait_on(self, session: Session, turn: Turn, evidence: str, context: Context) -> list[Effect]:
        """Keep waiting for a model that nobody can take over from, and say so once a turn."""
        model = turn.attempt.model
        said = toasts.waiting(model, None if context.chain else context.chain_advice())
        return [
            *context.toast(session, said, once=f"{turn.message_id}/waiting/{model}"),
            Record(session.id, "waiting", f"{model}: {evidence}, and no other model can take over"),
        ]

    def given_up(self, session: Session, effect: GiveUp, outcome: Outcome, context: Context) -> list[Effect]:
        """Judge a silence after its request was to be left."""
        turn = session.turn
        if turn is None or turn.attempt.number != effect.attempt:
            return []
        refused = isinstance(outcome, Failed)
        if (turn.attempt.silent or context.never_replays) and not refused:
            return []  # the request itself is asked about next
        silent = Failure(kind="timeout", evidence=effect.evidence)
        # A request that was left while it flowed ends its run. Where there was none, the run has to be ended.
        run: RunState = "running" if refused else "over"
        return self._signals.failed(session, turn, turn.attempt, silent, context, run=run)
