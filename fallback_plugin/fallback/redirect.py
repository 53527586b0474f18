"""The model a prompt runs on, chosen before it begins.

A prompt for a closed primary is sent to the fallback in use, or to the first open model of the chain; once
the primary is open the session goes back to it.

A host may take its selection from the message it has stored, as OpenCode's terminal UI does when it opens a
session, for the agent of that message. The stand-in it asks for then is our own redirect coming back and no
choice of the user's, so it counts as a request for the primary. Once the host has asked for anything else for
that agent, its selection is the user's again.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final, TypeGuard, cast, get_args

from fallback_plugin.fallback import toasts
from fallback_plugin.fallback.chain import Chain
from fallback_plugin.fallback.classify import Failure
from fallback_plugin.fallback.context import Context
from fallback_plugin.fallback.effects import BACK, CHOSEN, REDIRECT, Effect, Record, Why
from fallback_plugin.fallback.session import Redirect, Session, SetAside, same_model
from fallback_plugin.fallback.shared_health import ALL_OPEN, SessionHealth
from fallback_plugin.fallback.state import FallbackState, Moved, PassedOver, Plan
from fallback_plugin.hookspecs import PromptRequest
from fallback_plugin.model_ref import ModelRef
from fallback_plugin.settings import FailureKind
from fallback_plugin.wire.model_catalog import ModelCatalog

_KINDS: Final = frozenset(get_args(FailureKind))


def choose_model(
    session: Session, state: FallbackState, request: PromptRequest, context: Context
) -> tuple[ModelRef | None, list[Effect]]:
    """Choose the model for a new prompt; None leaves the prompt alone.

    Changes ``state`` at once, since the answer is the dispatch; `undo_unless_taken` puts it back if the host
    did not go along.
    """
    requested, moved = request.model, state.moved_of(request.agent)
    if requested is None and _is_another(request.resolved, state, moved):
        state.settle_selection(request.agent)
        state.adopt(request.resolved)
    before = state.snapshot()
    if requested == state.original:
        state.settle_selection(request.agent)
    elif requested is not None and (moved is None or requested not in moved):
        state.settle_selection(request.agent)
        return None, _adopt(session, state, requested, context)
    elif requested is not None and moved is not None and moved.original != state.original:
        # Another agent had its turn meanwhile.
        state.original, state.current = moved.original, requested
        state.index = _place(requested, context.chain)
    if state.current != state.original:
        state.index = _place(state.current, context.chain)  # settings may have changed since the last turn
    may_return = not context.settings.fallback.sticky and context.catalog.offers(state.original)
    recovered = may_return and state.recover(context.now)
    effects = _said_back(session, state, request, context) if recovered else []
    if state.cooling(state.current, context.now):
        left = state.current
        state.index = -1
        state.begin_turn()
        unfit = context.unfit_now(session, state.health)
        planned = state.prepare(context.chain, context.now, max_attempts=1, unfit=unfit)
        if not isinstance(planned, Plan):
            state.restore(before)
            return None, []
        state.move(request.agent, planned.model)
        effects = _said_redirected(session, left, planned, request, context)
    session.redirect = Redirect(state.current, before)
    return None if state.current == requested else state.current, effects


def keep_unlisted_apart(session: Session, request: PromptRequest, catalog: ModelCatalog) -> None:
    """Give prompts that name a model which the host does not list a state of their own.

    Such a model is no primary to come back to: the next prompt finds the session as it was before.
    """
    listed = request.model is None or catalog.offers(request.model)
    if listed == (session.set_aside is None):
        return
    if session.set_aside is None:
        session.set_aside, session.state = SetAside(session.state), None
    else:
        session.state, session.set_aside = session.set_aside.state, None
    session.redirect = None


def undo_unless_taken(session: Session, model: ModelRef) -> None:
    """Put the state back if the host runs a redirected prompt on another model."""
    redirect, session.redirect = session.redirect, None
    if redirect is not None and session.state is not None and redirect.model != model:
        session.state.restore(redirect.before)


def as_it_was(
    moved: Mapping[str | None, Moved], request: PromptRequest, health: SessionHealth, context: Context
) -> FallbackState | None:
    """Return the state of a session that was moved and forgotten, None if it does not ask for a stand-in.

    A sticky session asks for the one in use with a prompt that names no model and would go to the primary.
    A prompt that sends the moved turn again has nothing to do with it: another process answers its failure.
    A model that the host does not list is no primary to come back to.
    """
    wanted = request.model or request.resolved
    of = moved.get(request.agent) or moved.get(None)
    if of is None or not context.catalog.offers(of.original):
        return None
    if request.model is None and wanted == of.original and context.settings.fallback.sticky:
        wanted = of.stand_ins[-1]
    if wanted is None or wanted not in of:
        return None
    if of.turn is not None and of.turn == request.message_id:
        return None
    return FallbackState(of.original, wanted, _place(wanted, context.chain), health=health, moved=moved)


def moved_sessions(decisions: Iterable[Mapping[str, Any]]) -> dict[str, Mapping[str | None, Moved]]:
    """Return which sessions were moved and have not come back, as far as stored decisions tell.

    Those name no agent.
    """
    moved: dict[str, Moved] = {}
    for decision in decisions:
        session, name, why = decision["session"], decision["decision"], decision.get("why") or {}
        if name in {BACK, CHOSEN}:
            moved.pop(session, None)
        elif name in {"switch", REDIRECT} and why.get("taken"):
            try:
                failed, taken = ModelRef.parse(why["failed"]), ModelRef.parse(why["taken"])
            except ValueError:
                continue
            known = moved.pop(session, Moved(failed))
            if taken != known.original:
                moved[session] = known.on(taken, why.get("turn"))
    return {session: {None: each} for session, each in moved.items()}


def _place(model: ModelRef, chain: Chain) -> int:
    return chain.index(model) if model in chain else -1


def _is_another(resolved: ModelRef | None, state: FallbackState, moved: Moved | None) -> TypeGuard[ModelRef]:
    """Tell whether the host means a model that is neither the primary nor a stand-in of ours.

    It is an agent's own, or takes the place of one that is gone from the settings.
    """
    if resolved is None or any(same_model(resolved, each) for each in (state.original, state.current)):
        return False
    return moved is None or resolved not in moved


def _adopt(
    session: Session, state: FallbackState, chosen_by_user: ModelRef, context: Context
) -> list[Effect]:
    """Make a model the user picked the primary, be it the fallback in use or any other."""
    stood_in, left = chosen_by_user == state.current, state.original
    state.adopt(chosen_by_user)
    said = context.toast(session, toasts.chosen(chosen_by_user, left)) if stood_in else []
    return [*said, Record(session.id, CHOSEN, str(chosen_by_user))]


def _said_back(
    session: Session, state: FallbackState, request: PromptRequest, context: Context
) -> list[Effect]:
    toast = toasts.recovered(state.original)
    return [
        *context.toast(session, toast, once=_once(request, "recovered")),
        Record(session.id, BACK, f"{state.original} may be asked again"),
    ]


def _once(request: PromptRequest, what: str) -> str | None:
    """Return the name of what is said once of a prompt; None where the host does not name its message."""
    return f"{request.message_id}/{what}" if request.message_id else None


def _said_redirected(
    session: Session, left: ModelRef, plan: Plan, request: PromptRequest, context: Context
) -> list[Effect]:
    health = session.state.health if session.state else ALL_OPEN
    closing = health.closing(left)
    if closing is None:
        return []
    key, closure = closing
    kind = cast("FailureKind", closure.reason) if closure.reason in _KINDS else "unknown"
    failure = Failure(kind=kind, scope=key.scope, evidence="health")
    until = health.closed_until(left)
    passed_over = (PassedOver(left, "cooling", until), *plan.passed_over)
    sign = "it was closed when the prompt came"
    why = Why(request.message_id or "", sign, left, failure, plan.model, passed_over, key.scope)
    toast = toasts.redirected(left, failure, until, plan.model)
    return [
        *context.toast(session, toast, once=_once(request, "redirected")),
        Record(session.id, REDIRECT, f"{left}: {kind}, closed", why),
    ]
