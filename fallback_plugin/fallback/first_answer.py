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
    asked_again = session.turn is not None and session.turn.asked_again > 0
    if attempt.dispatched and not attempt.failed and not asked_again:
        effects += context.toast(session, toasts.switched(attempt.model, first_left(session, context.now)))
        effects.append(Record(session.id, "switched", str(attempt.model)))
    return effects
