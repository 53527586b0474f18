"""The models that are closed, as plain values in memory."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from fallback_plugin.model_ref import ModelRef

ALWAYS: Final = float("inf")
NEVER: Final = -ALWAYS


class Closures:
    """Until when each model is closed.

    Asking again costs nothing as long as no model was closed or opened and no time has run out.
    """

    def __init__(self) -> None:
        self._until: dict[ModelRef, float] = {}
        self._view: Mapping[ModelRef, float] = MappingProxyType({})
        self._view_from = self._view_until = ALWAYS

    def __getitem__(self, model: ModelRef) -> float:
        """Return until when a model is closed, `NEVER` for one that is not."""
        return self._until.get(model, NEVER)

    def close(self, model: ModelRef, until: float) -> None:
        """Close a model; never for shorter than it is closed already."""
        if until > self[model]:
            self._until[model] = until
            self._forget_view()

    def open(self, model: ModelRef) -> None:
        """Open a model."""
        if self._until.pop(model, None) is not None:
            self._forget_view()

    def replace(self, until: Mapping[ModelRef, float]) -> None:
        """Forget what was known and take other knowledge in."""
        self._until = dict(until)
        self._forget_view()

    def at(self, now: float) -> Mapping[ModelRef, float]:
        """Return those closed at ``now``, read-only."""
        if not self._view_from <= now < self._view_until:
            view = {model: until for model, until in self._until.items() if until > now}
            self._view = MappingProxyType(view)
            self._view_from, self._view_until = now, min(view.values(), default=ALWAYS)
        return self._view

    def _forget_view(self) -> None:
        self._view_from = self._view_until = ALWAYS
