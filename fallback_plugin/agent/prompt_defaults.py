"""Which agent and model a prompt goes to: what it names, its session's, or those of the settings."""

from collections.abc import Callable
from typing import Final

from fallback_plugin.agent.records import Session, UserPrompt
from fallback_plugin.model_ref import ModelRef

DEFAULT_AGENT: Final = "build"


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
) -> ModelRef | None:
    """Return the model that a prompt goes to, None if nothing names one.

    A session that changes to another agent goes on with that agent's ``own`` model if it has one, else with
    the model it had.
    """
    agent = agent_of(prompt, session)
    kept = session.model if agent == (session.agent or DEFAULT_AGENT) else None
    return prompt.model or kept or own(agent) or session.model or default
