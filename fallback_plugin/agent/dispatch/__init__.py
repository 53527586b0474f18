"""Prompts accepted, run one after the other in each session, and cancelled exactly."""

from fallback_plugin.agent.dispatch.dispatcher import Dispatcher
from fallback_plugin.agent.dispatch.from_threads import DispatcherFromThreads
from fallback_plugin.agent.dispatch.lane import Cancelled, CancelMode, LaneStatus

__all__ = ["CancelMode", "Cancelled", "Dispatcher", "DispatcherFromThreads", "LaneStatus"]
