"""Which models a session may go to, in which order."""

from fallback_plugin.model_ref import ModelRef
from fallback_plugin.settings import AgentSettings, FallbackSettings, Settings

Chain = tuple[ModelRef, ...]


def chain_for(settings: Settings, agent: str | None) -> Chain:
    """Return the chain of an agent, with the global one behind it.

    An agent's own list counts if it is not empty. Its own model is put in front unless it is in the list, so
    that a session moved by hand can still come to the configured primary.
    """
    table = _table(settings, agent)
    chain = table.candidates
    own = table.model if isinstance(table, AgentSettings) else None
    return chain if own is None or own in chain else (own, *chain)


def not_allowed(settings: Settings, agent: str | None) -> frozenset[ModelRef]:
    """Return the models of an agent's chain that cost money nobody has agreed to spend."""
    if settings.fallback.allow_paid:
        return frozenset()
    return frozenset(entry.model for entry in _table(settings, agent).fallback_models if entry.paid)


def _table(settings: Settings, agent: str | None) -> AgentSettings | FallbackSettings:
    """Return the table whose chain is an agent's."""
    own = settings.agents.get(agent.strip().lower()) if agent else None
    return own if own is not None and own.fallback_models else settings.fallback
