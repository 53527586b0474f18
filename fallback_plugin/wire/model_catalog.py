"""What a host says of its models: ``GET /config/providers`` of OpenCode, cut down to what a choice needs."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from fallback_plugin.model_ref import ModelRef
from fallback_plugin.wire.fields import Json, integer, optional_object


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """One model. None: the host does not say.

    ``context_tokens`` is how large its context may grow; ``images`` and ``tools`` whether it takes them.
    """

    context_tokens: int | None = None
    images: bool | None = None
    tools: bool | None = None


@dataclass(frozen=True, slots=True)
class ModelCatalog:
    """The connected providers and their models; nothing is known of what they cannot do if it is empty."""

    providers: Mapping[str, Mapping[str, ModelFacts]] = field(default_factory=dict)

    def connected(self, provider: str) -> bool:
        """Tell whether a provider may be asked: it is in the list, or there is no list."""
        return not self.providers or provider in self.providers

    def lists(self, model: ModelRef) -> bool:
        """Tell whether a model may be asked: it is in the list, or its provider has no list."""
        models = self.providers.get(model.provider)
        return not models or model.model in models

    def facts(self, model: ModelRef) -> ModelFacts:
        """Return what is known of a model."""
        return self.providers.get(model.provider, {}).get(model.model, NOTHING_KNOWN)


NOTHING_KNOWN: Final = ModelFacts()
EVERYTHING: Final = ModelCatalog()
"""For a host that says nothing of its models: all may be asked."""


def read_catalog(source: object) -> ModelCatalog:
    """Read ``{providers: [{id, models: {id: {limit, capabilities}}}]}``; what makes no sense is left out."""
    providers = source.get("providers") if isinstance(source, Mapping) else None
    listed = [each for each in providers or () if isinstance(each, Mapping)]
    return ModelCatalog(
        {
            each["id"]: {
                name: _facts(model)
                for name, model in (optional_object(each, "models") or {}).items()
                if isinstance(model, Mapping)
            }
            for each in listed
            if isinstance(each.get("id"), str)
        }
    )


def _facts(model: Json) -> ModelFacts:
    capabilities = optional_object(model, "capabilities") or {}
    window = integer(optional_object(model, "limit") or {}, "context")
    return ModelFacts(
        context_tokens=window or None,
        images=_yes_or_no(optional_object(capabilities, "input") or {}, "image"),
        tools=_yes_or_no(capabilities, "toolcall"),
    )


def _yes_or_no(source: Json, key: str) -> bool | None:
    value = source.get(key)
    return value if isinstance(value, bool) else None
