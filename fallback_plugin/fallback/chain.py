"""Which models a session may go to, in which order."""

from collections.abc import Iterable

from fallback_plugin.model_ref import ModelRef
from fallback_plugin.settings import ChainEntry, Settings

Chain = tuple[ModelRef, ...]


def chain_for(settings: Settings, agent: str | None) -> Chain:
    """Return the chain of an agent, with the global one behind it.

    An agent's own list counts if it is not empty. Its own model is put in front unless it is in the list, so
    that a session moved by hand can still come to the configured primary.
    """
    own = settings.agents.get(agent.strip().lower()) if agent else None
    chain = models(_entries(settings, agent))
    if own is None or not own.fallback_models or own.model is None or own.model in chain:
        return chain
    return (own.model, *chain)


def not_allowed(settings: Settings, agent: str | None) -> frozenset[ModelRef]:
    """Return the models of an agent's chain that cost money nobody has agreed to spend."""
    if settings.fallback.allow_paid:
        return frozenset()
    return frozenset(entry.model for entry in _entries(settings, agent) if entry.paid)


def models(entries: Iterable[ChainEntry]) -> Chain:
    """Return the models of some entries."""
    return tuple(entry.model for entry in entries)


def _entries(settings: Settings, agent: str | None) -> tuple[ChainEntry, ...]:
    own = settings.agents.get(agent.strip().lower()) if agent else None
    return own.fallback_models if own and own.fallback_models else settings.fallback.fallback_models
