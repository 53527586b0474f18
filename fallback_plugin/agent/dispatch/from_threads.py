"""The dispatcher for threads other than its event loop's, such as a plugin's own."""

from functools import partial

from fallback_plugin.agent.dispatch.dispatcher import Dispatcher
from fallback_plugin.agent.dispatch.lane import Cancelled, CancelMode, LaneStatus
from fallback_plugin.agent.protocols import Accepted
from fallback_plugin.agent.records import Run, UserPrompt


class DispatcherFromThreads:
    """Blocks the calling thread until the dispatcher has answered. Never to be used on the event loop."""

    def __init__(self, dispatcher: Dispatcher) -> None:
        self._dispatcher = dispatcher

    def accept(self, session_id: str, prompt: UserPrompt, *, parent: Run | None = None) -> Accepted:
        """As `Dispatcher.accept`."""
        accept = partial(self._dispatcher.accept, session_id, prompt, parent=parent)
        return self._dispatcher.portal.call(accept)

    def cancel(self, session_id: str, mode: CancelMode = "all") -> Cancelled:
        """As `Dispatcher.cancel`."""
        return self._dispatcher.portal.call(self._dispatcher.cancel, session_id, mode)

    def wait(self, run_id: str) -> None:
        """As `Dispatcher.wait`."""
        self._dispatcher.portal.call(self._dispatcher.wait, run_id)

    def status(self, session_id: str) -> LaneStatus:
        """As `Dispatcher.status`."""
        return self._dispatcher.portal.call(self._dispatcher.status, session_id)
