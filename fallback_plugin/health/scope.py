"""What a failure closes: one model, or everything that shares its provider, account or upstream."""

from typing import Literal, NamedTuple, TypeAlias

from fallback_plugin.model_ref import ModelRef

Scope: TypeAlias = Literal["model", "provider", "account", "upstream"]


class Key(NamedTuple):
    """What is closed as one. ``name`` is a model's, or its vendor's; empty for a whole provider."""

    scope: Scope
    provider: str
    name: str = ""
    variant: str = ""


def closing_key(model: ModelRef, scope: Scope) -> Key:
    """Return what a failure of a model closes.

    Provider and account close every model of the provider. An upstream is what stands before the first slash
    of an aggregator's model (``openrouter/anthropic/…``); a model without one has an upstream of its own.
    """
    match scope:
        case "model":
            return Key("model", model.provider, model.model, model.variant or "")
        case "upstream":
            vendor, slash, _ = model.model.partition("/")
            return Key("upstream", model.provider, vendor + slash if slash else model.model)
        case "provider" | "account":
            return Key(scope, model.provider)


def keys_of(model: ModelRef) -> tuple[Key, Key, Key, Key]:
    """Return everything that closes a model when it is closed."""
    return (
        closing_key(model, "model"),
        closing_key(model, "upstream"),
        closing_key(model, "account"),
        closing_key(model, "provider"),
    )
