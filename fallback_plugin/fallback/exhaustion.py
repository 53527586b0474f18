"""Why no model of a chain answered a turn: one row for each, and which of them comes back by itself."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from fallback_plugin.fallback import toasts
from fallback_plugin.fallback.chain import Chain
from fallback_plugin.fallback.classify import Failure
from fallback_plugin.fallback.context import HEALED_BY_TIME, Context
from fallback_plugin.fallback.effects import Effect, Record, Why
from fallback_plugin.fallback.session import Session, Turn
from fallback_plugin.fallback.state import FallbackState, PassedOver, Refusal, Unfit
from fallback_plugin.model_ref import ModelRef
from fallback_plugin.settings import FAILURE_KINDS, FailureKind

_KINDS: Final[Mapping[str, FailureKind]] = {kind: kind for kind in FAILURE_KINDS}


def heals(failure: Failure) -> bool:
    """Tell whether waiting alone brings a model back after a failure."""
    is_told = failure.kind != "quota" or failure.retry_after_s is not None
    return failure.kind in HEALED_BY_TIME and is_told


def first_left(session: Session, now: float) -> PassedOver | None:
    """Return why the first model that was left in a session's turn was left, None if there is none.

    The model that is on now may be one that had failed and was gone back to.
    """
    if session.state is None or session.turn is None:
        return None
    now_on = session.turn.attempt.model
    left = ((model, failure) for model, failure in session.turn.reasons.items() if model != now_on)
    model, failure = next(left, (None, None))
    if model is None or failure is None:
        return None
    return _left(model, failure, session.state, now, now)


def say_exhausted(session: Session, turn: Turn, refusal: Refusal, why: Why, context: Context) -> list[Effect]:
    """Say, once a turn, that no model of its chain is left, and why not."""
    state = session.state
    if turn.exhaustion_said or state is None:
        return []
    turn.exhaustion_said = True
    closing = {each.model: each.until for each in context.close(session, why.failed, why.failure)}
    unfit = context.unfit(session, turn, why.failure)
    rows = unanswered(
        turn.reasons, context.chain, state, context.now, refusal=refusal, unfit=unfit, closing=closing
    )
    why = replace(why, passed_over=tuple(each for each in rows if each.model != why.failed))
    return [
        *context.toast(session, toasts.exhausted(rows), once=f"{turn.message_id}/exhausted"),
        Record(session.id, "exhausted", refusal.reason, why),
    ]


def unanswered(
    reasons: Mapping[ModelRef, Failure],
    chain: Chain,
    state: FallbackState,
    now: float,
    *,
    refusal: Refusal,
    unfit: Unfit,
    closing: Mapping[ModelRef, float],
) -> tuple[PassedOver, ...]:
    """Return why each model did not answer: those that failed in the turn, then the rest of the chain.

    ``closing`` are the models that are being closed, and until when. ``until`` is set only where waiting
    until then helps.
    """
    others = dict.fromkeys(model for model in (*chain, state.original) if model not in reasons)
    return (
        *(_left(model, failure, state, now, closing.get(model, now)) for model, failure in reasons.items()),
        *(_not_asked(model, state, now, refusal, unfit) for model in others),
    )


def _left(model: ModelRef, failure: Failure, state: FallbackState, now: float, closing: float) -> PassedOver:
    until = max(closing, state.health.closed_until(model))
    return PassedOver(model, toasts.describe(failure), until if heals(failure) and until > now else None)


def _not_asked(
    model: ModelRef, state: FallbackState, now: float, refusal: Refusal, unfit: Unfit
) -> PassedOver:
    reason = unfit(model)
    if reason is not None:
        return PassedOver(model, reason)
    if not state.cooling(model, now):
        spent = refusal.reason == "max_attempts"
        return PassedOver(model, "not asked, max_attempts is used up" if spent else "not asked again")
    closing = state.health.closing(model)
    if closing is None or closing[1].reason not in _KINDS:
        return PassedOver(model, "failed before")
    kind = _KINDS[closing[1].reason]
    # Whether a quota's reset was told is not kept; its record has at least an end.
    until = state.health.closed_until(model)
    return PassedOver(model, f"{toasts.KIND_WORDS[kind]} before", until if kind in HEALED_BY_TIME else None)
