"""An attempt's first answer: it shows that its model is back, and that a fallback is in use."""

from fallback_plugin.fallback import toasts
from fallback_plugin.fallback.context import Context
from fallback_plugin.fallback.effects import Effect, Record, Reopen
from fallback_plugin.fallback.exhaustion import first_left
from fallback_plugin.fallback.session import Attempt, Session
from fallback_plugin.fallback.shared_health import SharedHealth


def first_answer(session: Session, attempt: Attempt, health: SharedHealth, context: Context) -> list[Effect]:
    """Return what follows the first content of an attempt, nothing for any later one.

    It may be seen in the host's events or in what a prompt was answered with, and in either order.
    """
    if attempt.answered:
        return []
    attempt.answered = True
    effects: list[Effect] = []
    if health.knows(attempt.model):
        effects.append(Reopen(session.id, attempt.model, attempt.asked_at))
    # What a run prints stays, so it waits for the end of the step: the answer may break off yet.
    return effects if context.host_kind == "run" else [*effects, *fallback_in_use(session, attempt, context)]


def whole_answer(session: Session, attempt: Attempt, context: Context) -> list[Effect]:
    """Return what follows the proper end of an attempt's step."""
    return [] if attempt.awaited or not attempt.answered else fallback_in_use(session, attempt, context)


def fallback_in_use(session: Session, attempt: Attempt, context: Context) -> list[Effect]:
    """Say once that another model than the first one answers."""
    asked_again = session.turn is not None and session.turn.asked_again > 0
    if attempt.told or not attempt.dispatched or attempt.failed or asked_again:
        return []
    attempt.told = True
    return [
        *context.toast(session, toasts.switched(attempt.model, first_left(session, context.now))),
        Record(session.id, "switched", str(attempt.model)),
    ]
