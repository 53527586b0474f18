"""Which agent and model a prompt goes to: what it names, its session's, or those of the settings."""

from collections.abc import Callable
from typing import Final, TypeAlias

from fallback_plugin.agent.records import Session, UserPrompt
from fallback_plugin.model_ref import ModelRef

DEFAULT_AGENT: Final = "build"


Knows: TypeAlias = Callable[[ModelRef], bool]
"""Tells whether a model is one of those that may be asked."""


def no_own_model(_: str) -> ModelRef | None:
    """Return the own model of an agent where none has one."""
    return None


def agent_of(prompt: UserPrompt, session: Session) -> str:
    """Return the agent that a prompt goes to."""
    return prompt.agent or session.agent or DEFAULT_AGENT


def model_of(
    prompt: UserPrompt,
    session: Session,
    *,
    own: Callable[[str], ModelRef | None],
    default: ModelRef | None,
    knows: Knows,
) -> ModelRef | None:
    """Return the model that a prompt goes to, None if nothing names one.

    A session that changes to another agent goes on with that agent's ``own`` model if it has one, else with
    the model it had. One whose model is gone from the settings goes on as a new session would.
    """
    agent = agent_of(prompt, session)
    last = session.model if session.model is not None and knows(session.model) else None
    kept = last if agent == (session.agent or DEFAULT_AGENT) else None
    return prompt.model or kept or own(agent) or last or default or session.model


def gone_model(prompt: UserPrompt, session: Session, knows: Knows) -> ModelRef | None:
    """Return a session's model that a prompt would go to, were it not gone from the settings; else None."""
    gone = session.model if prompt.model is None else None
    return None if gone is None or knows(gone) else gone
