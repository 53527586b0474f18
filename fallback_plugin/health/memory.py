"""Health of one process: for tests, and for when no file can be used."""

from collections.abc import Mapping
from typing import Final

from fallback_plugin.health.closure import NEVER, Closure
from fallback_plugin.health.closures import Closures
from fallback_plugin.health.scope import Key
from fallback_plugin.health.store import LocalHealth, Move
from fallback_plugin.health.view import HealthView

SWEEP_EVERY_S: Final = 60.0
"""How often expired leases and forgotten records are thrown away."""


class MemoryHealth(LocalHealth):
    """Keeps everything in memory; ``closures`` is what is known of closed models at the start."""

    def __init__(self, closures: Closures | None = None) -> None:
        self._closures = closures or Closures()
        self._leases: dict[str, tuple[str, float]] = {}
        self._next_sweep = NEVER

    def view(self, now: float) -> HealthView:
        """Return what is closed at ``now``."""
        return HealthView(now, self._closures.all())

    def change(self, key: Key, move: Move) -> Closure | None:
        """Carry a move of a key's record out and return the outcome."""
        after = move(self._closures.get(key))
        self._closures.put(key, after)
        return after

    def take_in(self, records: Mapping[Key, Closure | None]) -> None:
        """Write records down as they come."""
        for key, record in records.items():
            self._closures.put(key, record)

    def claim(self, key: str, holder: str, now: float, *, ttl_s: float) -> bool:
        """Take the lease ``key`` for ``ttl_s`` seconds and tell whether ``holder`` has it now."""
        if now >= self._next_sweep:
            self._leases = {key: lease for key, lease in self._leases.items() if lease[1] > now}
            self._closures.forget(now)
            self._next_sweep = now + SWEEP_EVERY_S
        owner, expires_at = self._leases.get(key, (holder, now))
        if owner != holder and expires_at > now:
            return False
        self._leases[key] = holder, now + ttl_s
        return True

    def shut(self) -> None:
        """Do nothing: there is no file to let go of."""
