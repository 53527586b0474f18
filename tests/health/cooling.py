"""The models that are closed each for itself: the shortest way to say what a test expects."""

from fallback_plugin.health import HealthStore
from fallback_plugin.model_ref import ModelRef


def cooling(health: HealthStore, now: float) -> dict[ModelRef, float]:
    """Return until when each is closed."""
    return {
        ModelRef(key.provider, key.name, key.variant or None): record.until
        for key, record in health.view(now).closures.items()
        if key.scope == "model" and now < record.until
    }
