"""What all sessions share: which models are closed, and which session may probe one that is half-open."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from fallback_plugin.health.closure import Closure
from fallback_plugin.health.scope import Key, keys_of
from fallback_plugin.health.view import HealthView
from fallback_plugin.model_ref import ModelRef


def _granted(_: Key, __: str) -> bool:
    return True


@dataclass(slots=True)
class SharedHealth:
    """The latest view of a store; its owner keeps it up to date.

    ``begin_probe`` takes the probe of a half-open key for a session: a prompt on its way waits for nothing.
    """

    view: HealthView = field(default_factory=HealthView)
    begin_probe: Callable[[Key, str], bool] = _granted

    def knows(self, model: ModelRef) -> bool:
        """Tell whether anything is known against a model, be it closed or half-open."""
        return not self.view.closures.keys().isdisjoint(keys_of(model))

    def half_open(self, model: ModelRef) -> Key | None:
        """Return what has to be probed by whoever asks a model, None if nothing has."""
        return self.view.half_open(model)


@dataclass(frozen=True, slots=True)
class SessionHealth:
    """Health as one session sees it: its own probes close nothing.

    A probe belongs to the session, so that two copies of the plugin that follow it agree.
    """

    shared: SharedHealth = field(default_factory=SharedHealth)
    session_id: str = ""

    def closed_until(self, model: ModelRef) -> float:
        """Return until when a model is closed; a moment long past if it is not."""
        return self.shared.view.closed_until(model, self.session_id)

    def closing(self, model: ModelRef) -> tuple[Key, Closure] | None:
        """Return what closes a model for longest and why, None if it may be asked."""
        return self.shared.view.closing(model, self.session_id)

    def may_ask(self, model: ModelRef) -> bool:
        """Tell whether a model that is not closed may be asked; a half-open one by one session only."""
        key = self.shared.half_open(model)
        return key is None or self.shared.begin_probe(key, self.session_id)


ALL_OPEN: Final = SessionHealth()
"""Nothing is closed."""
