"""A switch from the failed model to the next: claim, stop the run, make room if need be, dispatch.

Each step returns effects and leaves a mark on the session or ends in `Switching.release`, so that no outcome
leaves a session in flight. Which way a turn is sent again, as measured on OpenCode 1.18.33:

- In place, wherever that works: nothing of the turn is lost.
- With an empty or half answer deleted, then in place: a turn that ended in ``stop`` runs again without its
  last message, and half an answer left standing is sent to the next model as words of its own.
- Taken back and sent anew, in a live terminal UI, which draws a prompt in place twice, and if no tool of the
  turn has run. Nowhere else: what is taken back goes with the next prompt, and so does all behind it.
"""

from fallback_plugin.fallback import toasts
from fallback_plugin.fallback.classify import Failure
from fallback_plugin.fallback.context import NEWS_S, SETTLE_S, Context, stop_run
from fallback_plugin.fallback.effects import (
    PROBED,
    Abort,
    Claim,
    DeleteMessage,
    Done,
    Effect,
    Failed,
    Fetched,
    FetchMessages,
    Outcome,
    Prompt,
    Record,
    Revert,
    StartTimer,
    Unrevert,
    Why,
    crossed,
    scope_of,
)
from fallback_plugin.fallback.exhaustion import say_exhausted
from fallback_plugin.fallback.guards import RetryInFlight
from fallback_plugin.fallback.reopening import reopened, wait_for_reopening
from fallback_plugin.fallback.replay import Replay, turn_to_replay
from fallback_plugin.fallback.session import (
    STOPPED_BY_USER,
    WENT_ON,
    Attempt,
    RunState,
    Session,
    Switch,
    Turn,
    sign_of,
)
from fallback_plugin.fallback.state import FallbackState, Planned, Refusal
from fallback_plugin.host_client import STOPPED, Receipt
from fallback_plugin.wire.prompt import Prompt as PromptBody


class Switching:
    """Carries switches through; at most one a session is in flight."""

    def __init__(self) -> None:
        self.in_flight = RetryInFlight()

    def begin(
        self, session: Session, turn: Turn, failure: Failure, context: Context, *, run: RunState
    ) -> list[Effect]:
        """Answer the failure of the turn's attempt: claim it, or say that no model is left."""
        attempt, state = turn.attempt, session.state
        if state is None:
            return []
        state.follow(attempt.model, context.chain, advances=len(turn.attempts) - 1)
        turn.reasons[attempt.model] = failure
        attempt.failed = True
        plan = self.plan(session, turn, state, failure, context)
        if context.never_replays and not isinstance(plan, Refusal):
            plan = Refusal("exhausted")
        if isinstance(plan, Refusal):
            return self.refused(session, turn, failure, plan, context)
        return self._claim(session, turn, Switch(turn, plan, failure, attempt, run), state)

    def begin_again(
        self, session: Session, turn: Turn, failure: Failure, context: Context, *, run: RunState
    ) -> list[Effect]:
        """Answer the failure of the turn's attempt by asking its model once more, if the turn still may."""
        attempt, state = turn.attempt, session.state
        if state is None:
            return []
        state.follow(attempt.model, context.chain, advances=len(turn.attempts) - 1)
        spent = state.attempts >= context.settings.fallback.max_attempts
        if spent or context.never_replays or state.cooling(attempt.model, context.now):
            return self.begin(session, turn, failure, context, run=run)
        attempt.failed = True
        switch = Switch(turn, state.again(), failure, attempt, run)
        return self._claim(session, turn, switch, state)

    def plan(
        self, session: Session, turn: Turn, state: FallbackState, failure: Failure, context: Context
    ) -> Planned:
        """Say what the next step of a failed turn would be."""
        max_attempts = context.settings.fallback.max_attempts
        unfit = context.unfit(session, turn, failure)
        return state.plan(context.chain, context.now, max_attempts=max_attempts, unfit=unfit)

    def _claim(self, session: Session, turn: Turn, switch: Switch, state: FallbackState) -> list[Effect]:
        attempt = switch.failed_attempt
        if not self.in_flight.claim(session.id):
            attempt.failed = False
            return []
        turn.running = True
        session.switch = switch
        return self._claim_failure(session, switch, state)

    def _claim_failure(self, session: Session, switch: Switch, state: FallbackState) -> list[Effect]:
        attempt = switch.failed_attempt
        key = f"{session.id}/{switch.turn.message_id}/{attempt.model}"
        if again := len(switch.turn.came_back):
            key += f"/{again}"
        return [Claim(session.id, attempt.number, key, state.health.shared.half_open(switch.plan.model))]

    def _plan_anew(
        self, session: Session, switch: Switch, state: FallbackState, context: Context
    ) -> list[Effect]:
        """Choose another model: the one that was chosen is being probed by somebody else."""
        if switch.back:
            self.release(session)
            return self.come_back(session, switch.turn, context)
        plan = self.plan(session, switch.turn, state, switch.failure, context)
        if isinstance(plan, Refusal) or plan.model == switch.plan.model:
            self.release(session)
            refusal = plan if isinstance(plan, Refusal) else Refusal("exhausted")
            return self.refused(session, switch.turn, switch.failure, refusal, context)
        switch.plan = plan
        return self._claim_failure(session, switch, state)

    def refused(
        self,
        session: Session,
        turn: Turn,
        failure: Failure,
        refusal: Refusal,
        context: Context,
    ) -> list[Effect]:
        """Take in that no model is left for the turn, whose present attempt has failed."""
        attempt = turn.attempt
        if failure.kind == "overflow":
            return [Record(session.id, "no switch: overflow", f"{attempt.model}: no larger window is known")]
        closed = context.close(session, attempt.model, failure)
        sign = toasts.unsent(failure) if failure.local else ""
        why = Why(turn.message_id, sign, attempt.model, failure, None, refusal.passed_over, scope_of(closed))
        exhausted = say_exhausted(session, turn, refusal, why, context)
        waiting = wait_for_reopening(session, turn, session.state, context) if session.state else []
        return [*closed, *exhausted, *waiting]

    def come_back(self, session: Session, turn: Turn, context: Context) -> list[Effect]:
        """Take an exhausted turn to a model that has opened while the host waits, or look again later."""
        attempt, state = turn.attempt, session.state
        waits = attempt.failed and attempt.retrying and turn.exhaustion_said
        if state is None or session.switch is not None or turn.cancelled or not waits:
            return []
        plan = reopened(session, turn, state, context)
        if plan is None:
            return wait_for_reopening(session, turn, state, context)
        switch = Switch(turn, plan, turn.reasons[attempt.model], attempt, "waiting", back=True)
        return self._claim(session, turn, switch, state)

    def finished(self, session: Session, effect: Effect, outcome: Outcome, context: Context) -> list[Effect]:
        """Take the outcome of one step and return the next."""
        switch = session.switch
        if isinstance(effect, Abort):
            session.ledger.answered(effect.attempt, context.now)
        if switch is None:
            return []
        match effect, switch.phase:
            case Claim(), "claiming":
                return self._claimed(session, switch, outcome, context)
            case Abort(), "aborting":
                return self._aborted(session, switch, effect, outcome, context)
            case FetchMessages(), "reading":
                return self._read(session, switch, outcome, context)
            case ((Revert() | DeleteMessage()), ("reverting" | "deleting")):
                return self._made_room(session, switch, outcome, context)
            case Prompt(), "dispatching":
                return self._dispatched(session, switch, effect, outcome, context)
            case _:
                return []

    def settled(self, session: Session, context: Context) -> list[Effect]:
        """Go on with a turn that had ended as if all were well, now that its last events are in."""
        switch = session.switch
        if switch is None and session.outdated is not None:
            return self._after_news(session, session.outdated, context)
        if switch is None or switch.phase != "settling":
            return []
        return self._send_again(session, switch, context)

    def gone_on(self, session: Session) -> list[Effect]:
        """See a run go on with the next message: its failure is judged by itself."""
        switch = session.switch
        if switch is None or switch.phase != "settling" or session.turn is switch.turn:
            return []
        return [*self.release(session), Record(session.id, "no prompt", WENT_ON)]

    def release(self, session: Session) -> list[Effect]:
        """End the switch, whatever came of it; a message that was taken back for nothing is shown again."""
        switch, session.switch = session.switch, None
        self.in_flight.release(session.id)
        if session.state:
            session.state.pending = None
        session.hides = session.hides or (switch is not None and switch.reverted)
        return [Unrevert(session.id)] if switch is not None and switch.reverted else []

    def _claimed(self, session: Session, switch: Switch, outcome: Outcome, context: Context) -> list[Effect]:
        attempt, state = switch.failed_attempt, session.state
        if state is not None and isinstance(outcome, Failed) and outcome.reason == PROBED:
            return self._plan_anew(session, switch, state, context)
        if switch.run != "finished":
            session.ledger.open(attempt.number, context.now)
        if isinstance(outcome, Failed):
            session.ledger.answered(attempt.number, context.now)
            self.release(session)
            return [Record(session.id, "no switch: another instance has it", str(attempt.model))]
        sign = sign_of(switch.run, switch.failure)
        how = f", and {switch.plan.model} is open again" if switch.back else ""
        closes = not (switch.plan.retries or switch.back)
        closed = context.close(session, switch.plan.failed, switch.failure) if closes else []
        record = Record.of_step(
            session.id, switch.turn.message_id, sign, switch.failure, switch.plan, closed=closed, how=how
        )
        if switch.run == "finished":
            switch.phase = "settling"
            return [*closed, StartTimer(session.id, "settle", attempt.number, SETTLE_S), record]
        switch.phase = "aborting"
        abort = Abort(session.id, attempt.number, context.knows(session), switch.run == "over")
        return [*closed, abort, record]

    def _aborted(
        self, session: Session, switch: Switch, effect: Abort, outcome: Outcome, context: Context
    ) -> list[Effect]:
        receipt = outcome.receipt if isinstance(outcome, Done) else Receipt()
        switch.ends_by_itself = not receipt.aborted
        if isinstance(outcome, Failed) or switch.ends_by_itself:
            session.ledger.withdraw(switch.failed_attempt.number)
        if status := crossed(effect, outcome):
            return self._crossed(session) if status == STOPPED else self._outdated(session, switch)
        if isinstance(outcome, Failed):
            switch.failed_attempt.failed = False
            # The run was stopped all the same: by the person, as far as anybody can tell.
            if switch.abort_reported or (switch.run != "over" and switch.idles):
                session.stop_turn(switch.turn)
            return self._give_up(session, switch, "the host did not stop its run", context, outcome)
        if switch.stopped_by_user(receipt) or not receipt.ended:
            session.stop_turn(switch.turn)
        return self._send_again(session, switch, context)

    def _crossed(self, session: Session) -> list[Effect]:
        """End the switch: the user has stopped its turn, as the next event will tell."""
        return [*self.release(session), Record(session.id, "no prompt", STOPPED_BY_USER)]

    def _outdated(self, session: Session, switch: Switch) -> list[Effect]:
        """Let the switch give way to a message of the user's, which runs by itself unless it was stopped."""
        if switch.attempt is not None:
            switch.turn.attempts.remove(switch.attempt)
        switch.attempt = switch.replay = None
        restored = self.release(session)
        session.outdated = switch
        return [*restored, StartTimer(session.id, "settle", switch.failed_attempt.number, NEWS_S)]

    def _after_news(self, session: Session, switch: Switch, context: Context) -> list[Effect]:
        """Send the message to which a switch gave way, if nothing runs it; if none came, go on with the turn.

        Our abort has stopped it, or it came while the failed run was ending, which is waited for.
        """
        session.outdated = None
        stands = session.turn is switch.turn and not switch.turn.cancelled
        waits = session.queued is not None or not switch.gave_way
        switch.gave_way = True
        if not (stands and waits) or not self.in_flight.claim(session.id):
            return [Record(session.id, "no prompt", WENT_ON)]
        session.switch = switch
        # The message's own run may begin only now, and is ended then.
        switch.phase, switch.run, switch.idles = "aborting", "running", []
        return [stop_run(session, switch.failed_attempt.number, context)]

    def _send_again(self, session: Session, switch: Switch, context: Context) -> list[Effect]:
        if reason := switch.over(session.turn):
            return [*self.release(session), Record(session.id, "no prompt", reason)]
        if closed := self._closed_meanwhile(session, switch, context):
            return [
                *self.release(session),
                *self.refused(session, switch.turn, switch.failure, closed, context),
            ]
        if session.queued is not None:
            switch.go_on_with(session.begin_turn(session.queued))
        turn, attempt = switch.turn, switch.failed_attempt
        anew = _is_sent_anew(turn, context)
        if turn.user is None or (anew and switch.replay is None):
            switch.phase = "reading"
            return [FetchMessages(session.id, attempt.number)]
        if switch.replay is None:
            switch.replay = Replay(turn.user, switch.plan.model)
        if not anew:
            switch.doomed = [*turn.take_half_answers(), *switch.doomed]
            if switch.ended_empty and attempt.step is not None:
                switch.doomed.append(attempt.step)
        return self._make_room(session, switch, switch.replay, context)

    def _make_room(self, session: Session, switch: Switch, replay: Replay, context: Context) -> list[Effect]:
        """Delete what the next model must not take for its own words, then send the turn again."""
        number = switch.failed_attempt.number
        if switch.doomed:
            switch.phase = "deleting"
            return [DeleteMessage(session.id, number, switch.doomed.pop())]
        if _is_sent_anew(switch.turn, context):
            switch.phase = "reverting"
            return [Revert(session.id, number, switch.turn.message_id)]
        return self._dispatch(session, switch, replay.first(), context)

    def _read(self, session: Session, switch: Switch, outcome: Outcome, context: Context) -> list[Effect]:
        if not isinstance(outcome, Fetched):
            return self._give_up(session, switch, "the history could not be read", context, outcome)
        turn = switch.turn
        stored = turn_to_replay(outcome.messages, turn.message_id)
        if stored is None:
            return self._give_up(session, switch, "the session holds no message to send again", context)
        last = turn_to_replay(outcome.messages)
        if turn.user is None and last is not None and last.user.id != stored.user.id:
            session.queued = last.user  # it waited when the run was stopped, and would never be answered
            return self._send_again(session, switch, context)
        turn.user, turn.message_id = stored.user, stored.user.id
        turn.tools_done = turn.tools_done or stored.tools_done
        refused = switch.replay is not None
        if switch.replay is None:
            switch.replay = Replay(stored.user, switch.plan.model)
        switch.replay.offer(stored.parts)
        if refused:
            switch.phase = "dispatching"
            return self._next_tier(session, switch, context)
        return self._send_again(session, switch, context)

    def _closed_meanwhile(self, session: Session, switch: Switch, context: Context) -> Refusal | None:
        """Choose another model if the plan's was closed since; return the refusal if none is left."""
        state, plan = session.state, switch.plan
        begun = switch.replay is not None or plan.retries
        if state is None or begun or not state.cooling(plan.model, context.now):
            return None
        planned = self.plan(session, switch.turn, state, switch.failure, context)
        if isinstance(planned, Refusal):
            return planned
        if not state.health.may_ask(planned.model):
            return Refusal("exhausted")
        switch.plan = planned
        return None

    def _made_room(
        self, session: Session, switch: Switch, outcome: Outcome, context: Context
    ) -> list[Effect]:
        """Send the turn into the room that was made; where none was made, in place may still do."""
        replay = switch.replay
        switch.reverted = switch.phase == "reverting" and not isinstance(outcome, Failed)
        if reason := switch.over(session.turn):
            return [*self.release(session), Record(session.id, "no prompt", reason)]
        if replay is None:
            return self._give_up(session, switch, "there is nothing to send again", context)
        if isinstance(outcome, Failed) and switch.ended_empty:
            return self._give_up(session, switch, "its empty answer could not be removed", context, outcome)
        if switch.phase == "deleting":
            return self._make_room(session, switch, replay, context)
        if isinstance(outcome, Failed):
            return self._dispatch(session, switch, replay.first(), context)
        body = replay.next()
        if body is None:
            return self._give_up(session, switch, "the message holds nothing to send again", context)
        return self._dispatch(session, switch, body, context)

    def _dispatch(self, session: Session, switch: Switch, body: PromptBody, context: Context) -> list[Effect]:
        attempt = switch.attempt = session.new_attempt(switch.plan.model, dispatched=True)
        attempt.sent_anew = body.message_id is None
        session.asked_for = None
        switch.turn.attempts.append(attempt)
        if switch.back:
            switch.turn.came_back |= {attempt.model}
        if session.state:
            session.state.pending = attempt.model
        switch.phase = "dispatching"
        failed, failure = switch.plan.failed, switch.failure
        if switch.plan.retries:
            said = toasts.retrying(failed, failure)
        else:
            said = toasts.switching(failed, failure, attempt.model)
        prompt = Prompt(session.id, attempt.number, body, context.knows(session))
        return [prompt, *context.toast(session, said)]

    def _dispatched(
        self, session: Session, switch: Switch, effect: Prompt, outcome: Outcome, context: Context
    ) -> list[Effect]:
        """Take the new model as the current one, or try what is left after a refusal."""
        attempt, state = switch.attempt, session.state
        if attempt is None or state is None or effect.attempt != attempt.number:
            return []
        if status := crossed(effect, outcome):
            return self._crossed(session) if status == STOPPED else self._outdated(session, switch)
        refused = isinstance(outcome, Failed) and outcome.status is not None
        reason = switch.over(session.turn)
        if refused and reason is None:
            return self._next_tier(session, switch, context)
        if reason is None and not state.commit(switch.plan):
            reason = "the session runs on another model already"
        dropped = switch.replay.dropped if switch.replay else frozenset()
        state.move(switch.turn.agent, attempt.model)
        switch.reverted = switch.reverted and refused
        restored = self.release(session)
        if reason is not None:
            return restored if refused else self._unwanted(session, switch, attempt, reason, context)
        accepted = "accepted" if isinstance(outcome, Done) else "not answered, may have been accepted"
        effects: list[Effect] = [Record(session.id, "dispatched", f"{attempt.model}: {accepted}")]
        if attempt.step is None:
            session.handed_in = switch
        if not attempt.answered:
            effects += context.first_token_timer(session, attempt)
        if dropped:
            effects += context.toast(session, toasts.degraded(attempt.model, dropped))
        return effects

    def _next_tier(self, session: Session, switch: Switch, context: Context) -> list[Effect]:
        """Send what is left to send; with nothing left, the refusal is a failure of the model it named."""
        attempt = switch.turn.attempt
        if reason := switch.over(session.turn):
            return [*self.release(session), Record(session.id, "no prompt", reason)]
        if switch.replay is None or switch.replay.needs_parts:
            switch.phase = "reading"
            return [FetchMessages(session.id, attempt.number)]
        body = switch.replay.next()
        if body is not None:
            attempt.sent_anew = body.message_id is None
            return [Prompt(session.id, attempt.number, body, context.knows(session))]
        if session.state:
            session.state.commit(switch.plan)
        restored = self.release(session)
        refused = Failure(kind="bad_request", evidence="prompt refused by the host")
        return [*restored, *self.begin(session, switch.turn, refused, context, run="over")]

    def _unwanted(
        self, session: Session, switch: Switch, attempt: Attempt, reason: str, context: Context
    ) -> list[Effect]:
        """Undo a prompt accepted too late; the host forgets a stop that comes before its run begins."""
        if session.turn is not switch.turn:
            session.unwanted[switch.turn.message_id] = attempt.number
        elif not switch.turn.cancelled:
            return [stop_run(session, attempt.number, context), Record(session.id, "abort", reason)]
        return [Record(session.id, "unwanted", f"{attempt.model}: {reason}")]

    def _give_up(
        self, session: Session, switch: Switch, reason: str, context: Context, told: Outcome | None = None
    ) -> list[Effect]:
        """End the switch without a prompt. What the host told is shown to the person, and kept nowhere."""
        restored = self.release(session)
        shown = f"{reason}: {told.reason}" if isinstance(told, Failed) else reason
        return [
            *restored,
            *context.toast(session, toasts.stuck(switch.plan.failed, shown)),
            Record(session.id, "gave up", reason),
        ]


def _is_sent_anew(turn: Turn, context: Context) -> bool:
    """Tell whether a turn is taken back and sent anew, and not run again in place."""
    return context.host_kind == "tui" and not (turn.tools_done or turn.compacting)
