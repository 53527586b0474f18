"""Health of one process: for tests, and for when no file can be used."""

from collections.abc import Mapping
from typing import Final

from fallback_plugin.health.closures import NEVER, Closures
from fallback_plugin.health.store import HealthStore
from fallback_plugin.model_ref import ModelRef

SWEEP_EVERY_S: Final = 60.0
"""How often expired leases are thrown away."""


class MemoryHealth(HealthStore):
    """Keeps everything in memory; ``closures`` is what is known of closed models at the start."""

    def __init__(self, closures: Closures | None = None) -> None:
        self._closures = closures or Closures()
        self._leases: dict[str, tuple[str, float]] = {}
        self._next_sweep = NEVER

    def cooling(self, now: float) -> Mapping[ModelRef, float]:
        """Return the models that are closed at ``now``, each with the time at which it opens again."""
        return self._closures.at(now)

    def close_model(
        self,
        model: ModelRef,
        until: float,
        *,
        reason: str,  # noqa: ARG002 -- nobody looks into the records of a process
        now: float,
    ) -> None:
        """Close a model until ``until``; one that is closed for longer already stays as it is."""
        if until > now:
            self._closures.close(model, until)

    def open_model(self, model: ModelRef) -> None:
        """Open a model again, whatever time it was closed for."""
        self._closures.open(model)

    def claim(self, key: str, holder: str, now: float, *, ttl_s: float) -> bool:
        """Take the lease ``key`` for ``ttl_s`` seconds and tell whether ``holder`` has it now."""
        if now >= self._next_sweep:
            self._leases = {key: lease for key, lease in self._leases.items() if lease[1] > now}
            self._next_sweep = now + SWEEP_EVERY_S
        owner, expires_at = self._leases.get(key, (holder, now))
        if owner != holder and expires_at > now:
            return False
        self._leases[key] = holder, now + ttl_s
        return True

    def shut(self) -> None:
        """Do nothing: there is no file to let go of."""
