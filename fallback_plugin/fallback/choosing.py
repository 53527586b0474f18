"""Whether a candidate can take a turn at all, whatever its health: what the host and the person say of it.

What the host's list does not say counts as fit: lists of models are often incomplete.
"""

from dataclasses import dataclass
from typing import Final

from fallback_plugin.model_ref import ModelRef
from fallback_plugin.settings import Settings
from fallback_plugin.wire.model_catalog import ModelCatalog

UNKNOWN_TO_HOST: Final = "unknown to the host"


@dataclass(frozen=True, slots=True)
class Need:
    """What a turn asks of a model.

    Attributes:
        images: the person's message holds one.
        tokens: what the session's context holds at least.
        window_above: only a context window known to be larger than this helps, in tokens.
    """

    images: bool = False
    tokens: int = 0
    window_above: int | None = None


def unlisted(settings: Settings, catalog: ModelCatalog) -> frozenset[ModelRef]:
    """Return the models of all chains that a host does not list, so that they are passed over."""
    chains = (settings.fallback.fallback_models, *(each.fallback_models for each in settings.agents.values()))
    named = {entry.model for chain in chains for entry in chain}
    return frozenset(model for model in named if not catalog.offers(model))


def misfit(
    model: ModelRef, need: Need, catalog: ModelCatalog, not_allowed: frozenset[ModelRef]
) -> str | None:
    """Return why a model cannot take a turn, None if nothing speaks against it."""
    if model in not_allowed:
        return "costs money; set allow_paid = true to take it"
    if not catalog.connected(model.provider):
        return catalog.unconnected.get(model.provider, "its provider is disabled or not connected")
    if not catalog.lists(model):
        return UNKNOWN_TO_HOST
    facts = catalog.facts(model)
    window = facts.context_tokens
    checks: tuple[tuple[bool, str], ...] = (
        (need.images and facts.images is False, "takes no images"),
        (facts.tools is False, "cannot call tools"),
        (window is not None and window < need.tokens, "context window too small"),
        (need.window_above is not None and (window or 0) <= need.window_above, "no larger context window"),
    )
    return next((reason for wrong, reason in checks if wrong), None)
