"""What the host writes down: each call is one transaction, and the events it causes are rows of it."""

from fallback_plugin.agent.journal.defaults import Defaults
from fallback_plugin.agent.journal.runs import StoredRuns
from fallback_plugin.agent.journal.sessions import StoredSessions
from fallback_plugin.agent.journal.turn import StoredTurn

__all__ = ["Defaults", "StoredRuns", "StoredSessions", "StoredTurn"]
