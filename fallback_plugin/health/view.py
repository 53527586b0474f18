"""Health at one moment, as plain values."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from fallback_plugin.health.closure import NEVER, Closure, closed_until, half_open, remembered
from fallback_plugin.health.scope import Key, keys_of
from fallback_plugin.model_ref import ModelRef


@dataclass(frozen=True, slots=True)
class HealthView:
    """What was closed at ``now``. It never changes; an answer takes the same time whatever is closed."""

    now: float = NEVER
    closures: Mapping[Key, Closure] = field(default_factory=dict)

    def closed_until(self, model: ModelRef, holder: str = "") -> float:
        """Return until when a model is closed by any of its keys, `NEVER` if it may be asked.

        While somebody else's probe of a half-open key runs, that is the time at which the probe counts as
        abandoned; to ``holder`` its own probe closes nothing.
        """
        return max(
            closed_until(record, self.now, holder) if (record := self.closures.get(key)) else NEVER
            for key in keys_of(model)
        )

    def closing(self, model: ModelRef, holder: str = "") -> tuple[Key, Closure] | None:
        """Return the record that closes a model for longest, with its key; None if it may be asked."""
        known = ((key, record) for key in keys_of(model) if (record := self.closures.get(key)) is not None)
        closed = [entry for entry in known if closed_until(entry[1], self.now, holder) > self.now]
        return max(closed, key=lambda entry: closed_until(entry[1], self.now, holder), default=None)

    def half_open(self, model: ModelRef) -> Key | None:
        """Return the widest key of a model that waits for a probe, None if none does.

        Whoever asks the model has to begin the probe of this key first: with it, all other models below the
        key wait for what comes out.
        """
        for key in reversed(keys_of(model)):
            record = self.closures.get(key)
            if record is not None and half_open(record, self.now):
                return key
        return None

    def entries(self) -> tuple[tuple[Key, Closure], ...]:
        """Return everything that is closed or half-open, in the order of the keys."""
        known = ((key, record) for key, record in self.closures.items() if remembered(record, self.now))
        return tuple(sorted(known, key=lambda entry: (entry[0].provider, entry[0])))
