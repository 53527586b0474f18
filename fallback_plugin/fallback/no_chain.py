"""A failure that no other model can be asked after, since no chain is set: said once a session."""

from fallback_plugin.fallback import toasts
from fallback_plugin.fallback.classify import Failure
from fallback_plugin.fallback.context import Context
from fallback_plugin.fallback.effects import Effect, Record
from fallback_plugin.fallback.session import Session
from fallback_plugin.model_ref import ModelRef


def say_no_chain(session: Session, failed: ModelRef, failure: Failure, context: Context) -> list[Effect]:
    """Say what failed, and that a chain has to be set for anything to follow."""
    if session.no_chain_said:
        return []
    session.no_chain_said = True
    return [
        *context.toast(session, toasts.no_chain(failed, failure, context.chain_advice()), once="no chain"),
        Record(session.id, "no switch: no chain", f"{failed}: {failure.kind}"),
    ]
