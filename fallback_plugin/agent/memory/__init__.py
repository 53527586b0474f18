"""What memory providers have still to be told: which turns, by whom, and when it is tried again."""

from fallback_plugin.agent.memory.ledger import MemoryLedger
from fallback_plugin.agent.memory.segments import Segment, SessionMemory
from fallback_plugin.agent.memory.store import SegmentStore
from fallback_plugin.agent.memory.worker import CommitWorker

__all__ = ["CommitWorker", "MemoryLedger", "Segment", "SegmentStore", "SessionMemory"]
