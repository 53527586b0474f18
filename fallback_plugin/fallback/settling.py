"""An owed turn is sent again, once its run has ended and nobody but us waits for the answer."""

from collections.abc import Sequence
from dataclasses import dataclass

from fallback_plugin.events import AssistantMessage, HostError, LastRequest, StoredMessage
from fallback_plugin.fallback.attempt_failure import attempt_failure
from fallback_plugin.fallback.classify import Failure, classify
from fallback_plugin.fallback.context import Context
from fallback_plugin.fallback.effects import Effect, Record
from fallback_plugin.fallback.first_answer import fallback_in_use, first_answer
from fallback_plugin.fallback.owing import owe
from fallback_plugin.fallback.replay import in_place, turn_to_replay
from fallback_plugin.fallback.session import Attempt, Session, Turn, same_model, sign_of
from fallback_plugin.fallback.shared_health import SharedHealth
from fallback_plugin.fallback.signals import empty_answer
from fallback_plugin.fallback.state import Refusal
from fallback_plugin.fallback.switching import Switching
from fallback_plugin.model_ref import ModelRef
from fallback_plugin.wire.prompt import Prompt


@dataclass(frozen=True, slots=True)
class Settlement:
    """What to do about an owed turn: delete these messages, then hand this prompt in, for this attempt."""

    turn: Turn
    attempt: Attempt
    prompt: Prompt
    doomed: tuple[str, ...] = ()


def settle(
    session: Session, history: Sequence[StoredMessage], switching: Switching, context: Context
) -> tuple[Settlement | None, list[Effect]]:
    """Return how an owed turn is sent again; None if nothing is owed, or no model is left."""
    owed, state = session.owed, session.state
    session.owed = None
    if owed is None or state is None or owed.turn.cancelled or owed.turn is not session.turn:
        return None, []
    turn, failure, failed = owed.turn, owed.failure, owed.attempt
    state.follow(failed.model, context.chain, advances=len(turn.attempts) - 1)
    planned = switching.plan(session, turn, state, failure, context)
    if turn.asked_again < context.verdict(failure, failed.model).retries:
        planned = state.again()
    if isinstance(planned, Refusal):
        return None, switching.refused(session, turn, failure, planned, context)
    stored = turn_to_replay(history, turn.message_id)
    user = turn.user or (stored.user if stored else None)
    if user is None:
        return None, [Record(session.id, "gave up", "the session holds no message to send again")]
    state.commit(planned)
    doomed = turn.take_half_answers()[::-1]
    if owed.sign == "finished" and failed.step is not None and failed.step not in doomed:
        doomed.append(failed.step)
    turn.running = True
    turn.attempts.append(session.new_attempt(planned.model, dispatched=True))
    turn.attempt.asked_at = context.now
    turn.attempt.awaited = context.host_kind == "run"
    prompt = in_place(user, planned.model)
    closed = [] if planned.retries else context.close(session, failed.model, failure)
    sign = sign_of(owed.sign, failure)
    effects: list[Effect] = [
        *closed,
        Record.of_step(
            session.id, turn.message_id, sign, failure, planned, closed=closed, how=", at the end of the run"
        ),
    ]
    return Settlement(turn, turn.attempt, prompt, tuple(doomed)), effects


def judge_answer(
    session: Session,
    settlement: Settlement,
    answer: StoredMessage | None,
    health: SharedHealth,
    context: Context,
) -> list[Effect]:
    """Take in what an owed turn was answered with; it is owed anew if that is nothing.

    None stands for a prompt that the host refused. The requests of the turn may be answered for by another
    process of ours, which then knows alone what failed of them, and says which model has answered.
    """
    turn = settlement.turn
    if turn is not session.turn or turn.attempt is not settlement.attempt:
        return []  # the user went on with another message meanwhile, or the turn with another model
    if turn.cancelled or session.owed is not None:
        return []  # it was stopped, or its failure was seen in the host's events
    error = answer.info.error if answer and isinstance(answer.info, AssistantMessage) else None
    last = answer.last_request if answer else None
    if last is not None and not same_model(last.model, turn.attempt.model):
        _move_on(session, turn, last.model)
    if last is not None and last.error is not None:
        return owe(session, turn, _failure_of(last, last.error, context), "over")
    if answer is None:
        return owe(session, turn, Failure(kind="unknown", evidence="prompt refused by the host"), "over")
    if error is not None:
        rules, provider = context.settings.fallback.rules, turn.attempt.model.provider
        return owe(session, turn, classify(error, context.now, rules=rules, provider=provider), "over")
    if not any(part.type == "text" and part.text and part.text.strip() for part in answer.parts):
        return owe(session, turn, empty_answer("stop"), "finished")
    return [
        *first_answer(session, turn.attempt, health, context),
        *fallback_in_use(session, turn.attempt, context),
    ]


def _move_on(session: Session, turn: Turn, model: ModelRef) -> None:
    """Take in that another process of ours has moved a turn on."""
    turn.attempt.failed = True
    turn.attempts.append(session.new_attempt(model, dispatched=True))
    turn.attempt.begun = True


def _failure_of(request: LastRequest, error: HostError, context: Context) -> Failure:
    rules = context.settings.fallback.rules
    return attempt_failure(request.model, error, request.ending, context.now, rules=rules)
