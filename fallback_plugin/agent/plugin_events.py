"""What happens in the host, told to its plugins the way OpenCode's events are."""

import logging
from collections import deque
from collections.abc import Sequence
from itertools import count

import anyio

from fallback_plugin.agent.records import HostEvent
from fallback_plugin.errors import WireError
from fallback_plugin.plugins import PluginHost
from fallback_plugin.wire.event import read_event

logger = logging.getLogger(__name__)


class PluginEvents:
    """Hands committed events on in a task of its own: a commit is told outside of any task.

    Whoever asks plugins something waits for `told` first, so that they have seen what was committed before.
    """

    def __init__(self, plugins: PluginHost) -> None:
        self._plugins = plugins
        self._sequence = count(1)
        self._waiting: deque[HostEvent] = deque()
        self._arrived = anyio.Event()
        self._told = anyio.Event()

    def take(self, events: Sequence[HostEvent]) -> None:
        """Keep events for `run`; never blocks."""
        self._waiting.extend(events)
        self._arrived.set()

    async def run(self) -> None:
        """Hand events on until cancelled."""
        while True:
            while self._waiting:
                self._publish(self._waiting.popleft())
            told, self._told = self._told, anyio.Event()
            told.set()
            await self._arrived.wait()
            self._arrived = anyio.Event()

    async def told(self) -> None:
        """Wait until everything that was committed up to now has been handed on."""
        if self._waiting:
            await self._told.wait()

    def _publish(self, told: HostEvent) -> None:
        raw = {"type": told.type, "properties": told.properties}
        try:
            event = read_event(raw, sequence=next(self._sequence))
        except WireError as error:
            logger.warning("an event of type %r is not told to plugins: %s", told.type, error)
        else:
            self._plugins.publish(raw, event)
