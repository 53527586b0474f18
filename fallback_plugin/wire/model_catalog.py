"""What a host says of its models: ``GET /config/providers`` of OpenCode, cut down to what a choice needs.

The host's own answer holds keys and options of the providers; nothing of that is kept.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from fallback_plugin.model_ref import ModelRef
from fallback_plugin.wire.fields import Json, integer, number, optional_object


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """One model. None: the host does not say.

    OpenCode writes 0 for a size or a price it does not know, so a model without a price may be free. Of
    ``images`` and ``tools`` it always says something, and acts on it: a model of which nobody said that it
    takes images gets none.

    Attributes:
        context_tokens: how large its context may grow.
        output_tokens: how long one answer may get.
        images: whether it takes images.
        tools: whether it can call tools.
        input_price: US dollars for a million tokens read.
        output_price: US dollars for a million tokens written.
    """

    context_tokens: int | None = None
    output_tokens: int | None = None
    images: bool | None = None
    tools: bool | None = None
    input_price: float | None = None
    output_price: float | None = None


@dataclass(frozen=True, slots=True)
class ModelCatalog:
    """The connected providers and their models; nothing is known of what they cannot do if it is empty.

    Attributes:
        providers: the models of each connected provider, by their names.
        unconnected: why a provider that is set up is not connected, where the host says so.
    """

    providers: Mapping[str, Mapping[str, ModelFacts]] = field(default_factory=dict)
    unconnected: Mapping[str, str] = field(default_factory=dict)

    def connected(self, provider: str) -> bool:
        """Tell whether a provider may be asked: it is in the list, or there is no list."""
        return provider in self.providers or not (self.providers or self.unconnected)

    def lists(self, model: ModelRef) -> bool:
        """Tell whether a model may be asked: it is in the list, or its provider has no list."""
        models = self.providers.get(model.provider)
        return not models or model.model in models

    def offers(self, model: ModelRef) -> bool:
        """Tell whether a model may be asked: its provider is connected and lists it, as far as is known."""
        return self.connected(model.provider) and self.lists(model)

    def facts(self, model: ModelRef) -> ModelFacts:
        """Return what is known of a model."""
        return self.providers.get(model.provider, {}).get(model.model, NOTHING_KNOWN)


NOTHING_KNOWN: Final = ModelFacts()
EVERYTHING: Final = ModelCatalog()
"""For a host that says nothing of its models: all may be asked."""


def read_catalog(source: object) -> ModelCatalog:
    """Read a host's list of models, leaving out what makes no sense.

    It is ``{providers: [{id, models: {name: {limit, capabilities, cost}}}]}``, where ``limit`` is ``{context,
    input?, output}``, ``capabilities`` ``{toolcall, input: {image}}`` and ``cost`` ``{input, output}``.
    """
    providers = source.get("providers") if isinstance(source, Mapping) else None
    listed = [each for each in providers if isinstance(each, Mapping)] if isinstance(providers, list) else []
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
    limit, cost, capabilities = (
        optional_object(model, key) or {} for key in ("limit", "cost", "capabilities")
    )
    # Some models read less than their context holds, so that an answer has room.
    windows = [size for key in ("context", "input") if (size := integer(limit, key))]
    return ModelFacts(
        context_tokens=min(windows, default=None),
        output_tokens=integer(limit, "output") or None,
        images=_yes_or_no(optional_object(capabilities, "input") or {}, "image"),
        tools=_yes_or_no(capabilities, "toolcall"),
        input_price=number(cost, "input") or None,
        output_price=number(cost, "output") or None,
    )


def _yes_or_no(source: Json, key: str) -> bool | None:
    value = source.get(key)
    return value if isinstance(value, bool) else None
