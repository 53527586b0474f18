"""Events as frames of a stream: each is written once, however many listen."""

from collections import OrderedDict
from itertools import count
from json import dumps
from typing import Final

from fallback_plugin.agent.records import HostEvent, Json, StoredEvent

KEPT: Final = 1024
"""Frames kept for listeners that are a little behind the first one."""


class Frames:
    """Writes events the way OpenCode does, with their place in the log as ``id``.

    ``directory`` makes them those of a stream over all folders, which says whose each event is.
    """

    def __init__(self, directory: str | None = None) -> None:
        self._directory = directory
        self._written: OrderedDict[int, tuple[HostEvent, bytes]] = OrderedDict()
        self._passing = count(1)

    def of(self, event: HostEvent) -> bytes:
        """Return an event's frame."""
        # An entry holds its event, so no other one can have the same identity meanwhile.
        found = self._written.get(id(event))
        if found is not None:
            return found[1]
        frame = self._write(event)
        self._written[id(event)] = event, frame
        if len(self._written) > KEPT:
            self._written.popitem(last=False)
        return frame

    def special(self, kind: str) -> bytes:
        """Return the frame of an event about the stream itself: ``server.heartbeat``."""
        return self._frame(self._passing_id(), kind, {})

    def connected(self, at: int) -> bytes:
        """Return the first frame of a stream, with the place in the log that it begins at.

        A client that is cut off before it heard of anything can go on from there.
        """
        return b"id: %d\n" % at + self.special("server.connected")

    def _write(self, event: HostEvent) -> bytes:
        if isinstance(event, StoredEvent):
            frame = self._frame(f"evt_{event.sequence}", event.type, event.properties)
            return b"id: %d\n" % event.sequence + frame
        return self._frame(self._passing_id(), event.type, event.properties)

    def _passing_id(self) -> str:
        return f"evt_p{next(self._passing)}"

    def _frame(self, event_id: str, kind: str, properties: Json) -> bytes:
        body: Json = {"id": event_id, "type": kind, "properties": properties}
        if self._directory is not None:
            body = {"directory": self._directory, "project": "global", "payload": body}
        return b"data: " + dumps(body, ensure_ascii=False, separators=(",", ":")).encode() + b"\n\n"
