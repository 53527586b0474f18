"""Following a session by what its host shows: turns, attempts, steps and parts. Nothing is decided here."""

from collections.abc import Sequence
from typing import Final

from fallback_plugin.events import AssistantMessage, Part, StoredMessage, UserMessage
from fallback_plugin.fallback.redirect import undo_unless_taken
from fallback_plugin.fallback.replay import TOOL_AT_WORK
from fallback_plugin.fallback.session import Attempt, Session, Turn, same_model
from fallback_plugin.fallback.state import FallbackState
from fallback_plugin.model_ref import ModelRef

COMPACTION_AGENT: Final = "compaction"
BESIDE: Final = frozenset({"title", "summary"})
"""Agents that work beside a turn, on requests of their own that nobody waits for."""

WELL_FINISHED: Final = frozenset({"length", "stop"})
CONTENT_PARTS: Final = frozenset({"reasoning", "text", "tool"})


def follow_user_message(session: Session, message: UserMessage, now: float) -> None:
    """Begin a turn with a new message, or see the host take a turn up again.

    No host promises that ids rise, or that its clock never goes back: an answer that names its message has
    the last word about which turn is under way (`follow_assistant_message`).
    """
    turn = session.turn
    seen_before = session.has_seen(message.id)
    if turn is None and session.unseen is not None:
        session.queued = message  # a turn is under way that was not seen: this one waits behind it
    elif turn is None:
        begin_turn(session, message, now)
    elif message.id == turn.message_id:
        turn.user = message
        turn.agent = message.agent
        if same_model(message.model, turn.attempt.shown):
            turn.attempt.begun = True
    elif turn.awaits(message.model):
        turn.message_id, turn.created_at, turn.user = message.id, message.created_at, message
        turn.attempt.begun = True
    elif seen_before or message.created_at < turn.created_at:
        pass  # hosts publish older messages again, and renew their times when they run them again
    elif turn.running and not turn.cancelled:
        session.queued = message
    else:
        begin_turn(session, message, now)


def begin_turn(session: Session, message: UserMessage, now: float) -> Turn:
    """Make a message the turn under way; its model is where the session stands now."""
    undo_unless_taken(session, message.model)
    return _stand_on(session, session.begin_turn(message), message.model, now)


def begin_unseen_turn(
    session: Session, message_id: str, model: ModelRef, agent: str | None, now: float, *, seen_at: float
) -> Turn | None:
    """Begin the turn of a message that a host works on and has not shown; None if that turn is over.

    ``seen_at`` is when the host showed the work on it. What we hear late is not taken for newer than what the
    host shows next.
    """
    if session.queued is not None and message_id == session.queued.id:
        return begin_turn(session, session.queued, now)
    if session.known.get(message_id):
        return None
    undo_unless_taken(session, model)
    turn = session.turn
    seems_begun = turn.user if turn is not None and not turn.steps else None
    waiting = session.queued or seems_begun
    unseen = session.begin_unseen_turn(message_id, model, min(seen_at, now), agent)
    if waiting is not None:
        session.let_wait(waiting)  # what seemed to be under way only waits behind this one
    return _stand_on(session, unseen, model, now)


def _stand_on(session: Session, turn: Turn, model: ModelRef, now: float) -> Turn:
    session.ledger.forget_before(turn.attempt.number, now)
    state = session.state
    if state is None:
        return turn
    state.begin_turn()
    if same_model(model, state.original) and state.current != state.original:
        state.current, state.index = state.original, -1
    elif not same_model(model, state.current):
        session.state = FallbackState.on(model, state.health)
    return turn


def follow_assistant_message(session: Session, message: AssistantMessage, now: float) -> Attempt | None:
    """Return the attempt a message belongs to; None if its turn is over, or it is of no attempt of ours."""
    turn = _turn_of(session, message, now)
    if turn is None:
        return None
    turn.compacting = message.agent == COMPACTION_AGENT
    if turn.user is None:
        turn.agent = message.agent
    attempt = turn.attempt_of(message)
    if attempt is None:
        if session.switch is not None:
            return None
        attempt = session.new_attempt(message.model)
        turn.attempts.append(attempt)
    if message.id not in turn.steps:
        turn.running = turn.running or not message.completed
        turn.steps[message.id] = attempt
        attempt.begin_step(message.id)
        attempt.asked_at = message.created_at
    attempt.begun = True
    if message.tokens:
        session.tokens = 0 if turn.compacting else message.tokens
    if message.completed and message.finish in WELL_FINISHED and message.id in turn.half_answers:
        # A dict keeps its room when it is emptied, and most sessions rest after a good answer.
        turn.half_answers = {step: of for step, of in turn.half_answers.items() if step != message.id}
    return attempt


def _turn_of(session: Session, message: AssistantMessage, now: float) -> Turn | None:
    """Return the turn that a step answers, which is the one under way from now on."""
    turn = session.turn
    if turn is not None and message.parent_id == turn.message_id:
        return turn
    waited = session.queued is not None and message.parent_id == session.queued.id
    is_over = message.completed or message.error is not None
    # A busy host shows an answer first when it has failed already.
    if (is_over and not waited) or message.agent in BESIDE:
        return None
    if turn is not None and turn.awaits(message.model) and not session.known.get(message.parent_id):
        turn.message_id = message.parent_id
        return turn
    if session.switch is not None and not waited:
        return None
    return begin_unseen_turn(
        session, message.parent_id, message.model, message.agent, now, seen_at=message.created_at
    )


def follow_part(turn: Turn, part: Part, now: float) -> Attempt | None:
    """Return the attempt whose present step grew by a part, None if no present step did."""
    if part.message_id == turn.message_id:
        turn.images = turn.images or is_image(part)
    attempt = turn.steps.get(part.message_id)
    if attempt is not None and part.type == "step-finish" and part.message_id == attempt.step:
        attempt.finished = True
    if attempt is None or part.type not in CONTENT_PARTS:
        return None
    speaks = part.type == "text" and bool(part.text and part.text.strip())
    if speaks:
        turn.half_answers.setdefault(part.message_id, attempt)
    if part.type == "tool":
        turn.half_answers.pop(part.message_id, None)
        if part.tool_status in TOOL_AT_WORK:
            attempt.tools_running |= {part.id}
        else:
            attempt.tools_running -= {part.id}
            turn.tools_done = True
    if part.message_id != attempt.step or attempt is not turn.attempt:
        return None
    attempt.grew_at = now
    attempt.spoken = attempt.spoken or part.type == "tool" or speaks
    return attempt


def is_image(part: Part) -> bool:
    """Tell whether a part of a message is a picture."""
    return part.type == "file" and str(part.raw.get("mime", "")).startswith("image/")


def adopt_history(session: Session, history: Sequence[StoredMessage], now: float) -> Turn | None:
    """Take up the turn a stored history ends with, for a session that was not followed from its beginning.

    A message behind the one that is being answered only waits.
    """
    asked = [stored.info for stored in history if isinstance(stored.info, UserMessage)]
    if not asked:
        return None
    for user in asked:
        session.has_seen(user.id)
    answers = [stored.info for stored in history if isinstance(stored.info, AssistantMessage)]
    answered = answers[-1].parent_id if answers and not answers[-1].completed else asked[-1].id
    under_way = next((user for user in asked if user.id == answered), asked[-1])
    turn = begin_turn(session, under_way, now)
    session.queued = asked[-1] if under_way is not asked[-1] else None
    of_turn = [answer for answer in answers if answer.parent_id == turn.message_id]
    if of_turn and not same_model(of_turn[0].model, turn.attempt.model):
        # A host that ran the message again names on it the model it ran it on at last.
        turn.attempt.model = of_turn[0].model
    for stored in history:
        if isinstance(stored.info, AssistantMessage) and stored.info.parent_id == turn.message_id:
            follow_assistant_message(session, stored.info, now)
            for part in stored.parts:
                follow_part(turn, part, now)
    return turn
