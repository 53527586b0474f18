"""A client's window on a session's messages: one contiguous slice, no message twice, whatever comes when."""

from fallback_plugin.history.operation import Outcome
from fallback_plugin.history.page import Fetch, Message, Page, PageRequest
from fallback_plugin.history.pager import HistoryPager
from fallback_plugin.history.window import Window

__all__ = ["Fetch", "HistoryPager", "Message", "Outcome", "Page", "PageRequest", "Window"]
