"""Names of models: ``provider/model[:variant]``."""

from dataclasses import dataclass
from typing import Final, Self

from fallback_plugin.errors import ModelRefError

VARIANTS: Final = frozenset({"none", "minimal", "low", "medium", "high", "xhigh", "max"})
"""Suffixes read as a variant; any other text after a colon belongs to the model (``ollama/qwen3:8b``)."""


@dataclass(frozen=True, slots=True, order=True)
class ModelRef:
    """One model at one provider, with the reasoning variant it is asked for.

    Two references that differ only in ``variant`` are different candidates of a chain.
    """

    provider: str
    model: str
    variant: str | None = None

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read ``provider/model`` or ``provider/model:variant``.

        The provider ends at the first slash; the model may hold more of them. A suffix counts as a
        variant only if it is one of `VARIANTS`; write other variants as ``{ model = …, variant = … }``.

        Raises:
            ModelRefError: without a slash, or with nothing on either side of it.
        """
        provider, slash, model = text.strip().partition("/")
        if not (provider and slash and model):
            raise ModelRefError(f"{text!r} is not a model: write it as provider/model, e.g. openai/gpt-5.1")
        stem, colon, suffix = model.rpartition(":")
        if colon and stem and suffix in VARIANTS:
            return cls(provider, stem, suffix)
        return cls(provider, model)

    def __str__(self) -> str:
        """Return the form that `parse` reads; the variant follows a colon."""
        name = f"{self.provider}/{self.model}"
        return f"{name}:{self.variant}" if self.variant else name
