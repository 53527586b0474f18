"""Health: which models are closed until when, and who may act on a failure, for all processes of a user."""

from fallback_plugin.health.memory import MemoryHealth
from fallback_plugin.health.place import default_file
from fallback_plugin.health.sqlite import SqliteHealth
from fallback_plugin.health.store import HealthStore

__all__ = ["HealthStore", "MemoryHealth", "SqliteHealth", "default_file"]
