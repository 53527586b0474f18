"""The model a prompt runs on, chosen before it begins.

A host that keeps asking for the primary while it cools, as OpenCode's terminal UI does, is sent to the
fallback in use; once the primary is usable the session goes back to it.
"""

from dataclasses import dataclass

from fallback_plugin.fallback.context import Context
from fallback_plugin.fallback.session import Redirect, Session
from fallback_plugin.fallback.state import FallbackState, Plan
from fallback_plugin.hookspecs import PromptRequest
from fallback_plugin.model_ref import ModelRef


@dataclass(frozen=True, slots=True)
class Choice:
    """The model to run a prompt on, None to leave the prompt alone; and whether it is the primary again."""

    model: ModelRef | None = None
    recovered: bool = False


def choose_model(session: Session, state: FallbackState, request: PromptRequest, context: Context) -> Choice:
    """Choose the model for a new prompt of a session that has failed before.

    Changes ``state`` at once, since the answer is the dispatch; `undo_unless_taken` puts it back if the host
    did not go along.
    """
    now = context.now
    before = state.snapshot()
    requested = request.model
    if requested is not None and requested != state.original:
        _adopt(state, requested)
        return Choice()
    recovered = not context.settings.fallback.sticky and state.recover(now)
    if state.cooling(state.current, now):
        state.index = -1
        state.begin_turn()
        cools_until = state.usable_at.get(state.current, now)
        unfit = context.unfit_now(session, state.health)
        planned = state.prepare(context.chain, now, max_attempts=1, usable_at=cools_until, unfit=unfit)
        if not isinstance(planned, Plan):
            state.restore(before)
            return Choice()
    session.redirect = Redirect(state.current, before)
    return Choice(None if state.current == requested else state.current, recovered)


def undo_unless_taken(session: Session, model: ModelRef) -> None:
    """Put the state back if the host runs a redirected prompt on another model."""
    redirect, session.redirect = session.redirect, None
    if redirect is not None and session.state is not None and redirect.model != model:
        session.state.restore(redirect.before)


def _adopt(state: FallbackState, chosen_by_user: ModelRef) -> None:
    """Make a model the user picked the primary, be it the fallback in use or any other."""
    state.original = state.current = chosen_by_user
    state.index = -1
    state.attempts = 0
    state.pending = None
