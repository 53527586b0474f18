"""A turn whose models have all failed, while the host still waits to ask the last one again.

Going back within a turn is what keeps a chain from going round for ever, so it is done here only: for a model
whose closure has ended meanwhile, once for each model, and within the turn's advances. The host would spend
the same time on asking the last model again and again.
"""

from collections.abc import Iterator
from typing import Final

from fallback_plugin.fallback.context import HEALED_BY_TIME, Context
from fallback_plugin.fallback.effects import Effect, StartTimer
from fallback_plugin.fallback.session import Session, Turn
from fallback_plugin.fallback.state import FallbackState, Plan
from fallback_plugin.model_ref import ModelRef

LOOK_AGAIN_S: Final = 5.0
"""How long a closure that somebody else has ended may go unseen."""


def reopened(session: Session, turn: Turn, state: FallbackState, context: Context) -> Plan | None:
    """Return the step to the first model, in the order of the chain, that is open again."""
    for index, model in _candidates(session, turn, state, context):
        if not state.cooling(model, context.now):
            return Plan(turn.attempt.model, model, index)
    return None


def wait_for_reopening(session: Session, turn: Turn, state: FallbackState, context: Context) -> list[Effect]:
    """Return the timer for the next look, if the host waits and anything may reopen."""
    moments = [state.health.closed_until(model) for _, model in _candidates(session, turn, state, context)]
    if not turn.attempt.retrying or not moments:
        return []
    wait_s = max(min(moments) - context.now, 0.0)
    return [StartTimer(session.id, "reopen", turn.attempt.number, min(wait_s, LOOK_AGAIN_S))]


def _candidates(
    session: Session, turn: Turn, state: FallbackState, context: Context
) -> Iterator[tuple[int, ModelRef]]:
    """Yield the models that time may give back to a turn, each with its place on the chain."""
    if state.attempts >= context.settings.fallback.max_attempts:
        return
    unfit = context.misfit(session, turn)
    places = {model: index for index, model in reversed([*enumerate(context.chain)])}
    for model in dict.fromkeys((state.original, *context.chain)):
        spent = model == turn.attempt.model or model in turn.came_back
        if not spent and unfit(model) is None and _heals(session, turn, state, model, context):
            yield places.get(model, -1), model


def _heals(session: Session, turn: Turn, state: FallbackState, model: ModelRef, context: Context) -> bool:
    """Tell whether a model is, or was in this turn, closed for a reason that time ends."""
    failure = turn.reasons.get(model)
    if failure is not None:
        return failure.kind in HEALED_BY_TIME and bool(context.close(session, model, failure))
    closing = state.health.closing(model)
    return closing is None or closing[1].reason in HEALED_BY_TIME
