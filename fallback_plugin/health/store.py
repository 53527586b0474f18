"""What every store of health offers, whatever it keeps its records in."""

from collections.abc import Mapping
from typing import Protocol

from fallback_plugin.model_ref import ModelRef


class HealthStore(Protocol):
    """Closed models and leases.

    Times are seconds since the epoch and come in as arguments; a store has no clock. Calls are synchronous,
    take well below a millisecond and never raise because of the place where the records are kept.
    Models that differ in their variant are different models.
    """

    def cooling(self, now: float) -> Mapping[ModelRef, float]:
        """Return the models that are closed at ``now``, each with the time at which it opens again."""
        ...

    def close_model(self, model: ModelRef, until: float, *, reason: str, now: float) -> None:
        """Close a model until ``until``; one that is closed for longer already stays as it is.

        ``reason`` is written down for people who look into the records.
        """
        ...

    def open_model(self, model: ModelRef) -> None:
        """Open a model again, whatever time it was closed for."""
        ...

    def claim(self, key: str, holder: str, now: float, *, ttl_s: float) -> bool:
        """Take the lease ``key`` for ``ttl_s`` seconds and tell whether ``holder`` has it now.

        Of several holders one gets it, until it expires; who has it gets it again, for ``ttl_s`` from then.
        """
        ...

    def shut(self) -> None:
        """Let go of files; what was claimed and closed stays so in a store that others share."""
        ...
