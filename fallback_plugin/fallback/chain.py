"""Which models a session may go to, in which order."""

from fallback_plugin.model_ref import ModelRef
from fallback_plugin.settings import Settings

Chain = tuple[ModelRef, ...]


def chain_for(settings: Settings, agent: str | None) -> Chain:
    """Return the chain of an agent, with the global one behind it.

    An agent's own list counts if it is not empty. Its own model is put in front unless it is in the list, so
    that a session moved by hand can still come to the configured primary.
    """
    own = settings.agents.get(agent.strip().lower()) if agent else None
    if own is None or not own.fallback_models:
        return settings.fallback.fallback_models
    if own.model is None or own.model in own.fallback_models:
        return own.fallback_models
    return (own.model, *own.fallback_models)
