"""Health: what is closed until when, and who may act on a failure, for all who share it."""

from fallback_plugin.health.memory import MemoryHealth
from fallback_plugin.health.place import default_file
from fallback_plugin.health.sqlite import SqliteHealth
from fallback_plugin.health.store import HealthStore
from fallback_plugin.health.view import HealthView

__all__ = ["HealthStore", "HealthView", "MemoryHealth", "SqliteHealth", "default_file"]
