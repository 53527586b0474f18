"""What one plugin has still to be told about one session: in order, bounded, streams merged."""

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import anyio

from fallback_plugin.events import Event, MessagePartDelta
from fallback_plugin.plugins.registry import Implementation
from fallback_plugin.plugins.streaming import is_streaming, stream_key, text_size, with_delta


@dataclass(slots=True, eq=False)
class Delivery:
    """One thing to tell a plugin: the implementations to call, in order, and their arguments.

    ``over`` is set once they ran, or will never run; ``complete`` says whether all of them ran to their end.
    """

    implementations: tuple[Implementation, ...]
    arguments: Mapping[str, Any]
    over: anyio.Event = field(default_factory=anyio.Event)
    complete: bool = True

    def give_up(self) -> None:
        """Mark as never to be run to its end."""
        self.complete = False
        self.over.set()


@dataclass(slots=True, eq=False)
class StreamDelivery(Delivery):
    """Progress of a stream that waits; later progress of the same part can join it."""

    texts: list[str] = field(default_factory=list)
    size: int = 0

    @property
    def event(self) -> Event:
        """The latest event that joined."""
        found: Event = self.arguments["event"]
        return found

    @property
    def key(self) -> tuple[object, ...]:
        """What progress must share with this to join it."""
        return stream_key(self.arguments["raw"], self.event)

    def growth(self, later: "StreamDelivery") -> int | None:
        """Return by how much ``later`` joining would enlarge this; None if it cannot join.

        It can if it is the same kind of progress of the same part, for the same implementations, and nothing
        came in between.
        """
        if later.key != self.key or later.implementations != self.implementations:
            return None
        return later.size if isinstance(later.event, MessagePartDelta) else later.size - self.size

    def join(self, later: "StreamDelivery", growth: int) -> None:
        """Take in what follows directly: deltas are added up, a newer state replaces the older one."""
        self.texts.extend(later.texts)
        self.size += growth
        self.arguments = later.arguments

    def merge(self) -> None:
        """Write the joined texts into the arguments."""
        event = self.event
        if isinstance(event, MessagePartDelta) and len(self.texts) > 1:
            raw, merged = with_delta(self.arguments["raw"], event, "".join(self.texts))
            self.arguments = {**self.arguments, "raw": raw, "event": merged}


def event_delivery(
    implementations: tuple[Implementation, ...], raw: Mapping[str, Any], event: Event, host: object
) -> Delivery:
    """Return the delivery of an event, one that can be merged if it is only progress of a stream."""
    arguments = {"raw": raw, "event": event, "host": host}
    if not is_streaming(event):
        return Delivery(implementations, arguments)
    texts = [event.delta] if isinstance(event, MessagePartDelta) else []
    return StreamDelivery(implementations, arguments, texts=texts, size=text_size(event))


class SessionQueue:
    """The deliveries of one session to one plugin, oldest first.

    State-bearing deliveries are all kept. Progress of a stream joins the youngest delivery where it can, and
    is dropped while ``max_streams`` of them or ``max_text`` characters wait.
    """

    def __init__(self, *, max_streams: int, max_text: int) -> None:
        self._waiting: deque[Delivery] = deque()
        self._running: Delivery | None = None
        self._max_streams = max_streams
        self._max_text = max_text
        self._streams = 0
        self._text = 0
        self.behind_since: float | None = None

    @property
    def backlog(self) -> int:
        """How many state-bearing deliveries wait."""
        return len(self._waiting) - self._streams

    @property
    def is_running(self) -> bool:
        """Whether the plugin has had its turn and is at it."""
        return self._running is not None

    @property
    def youngest(self) -> Delivery | None:
        """The last delivery that waits or runs; None when there is none."""
        return self._waiting[-1] if self._waiting else self._running

    def put(self, delivery: Delivery) -> bool:
        """Add a delivery; return False if it was dropped."""
        if isinstance(delivery, StreamDelivery):
            return self._put_stream(delivery)
        self._waiting.append(delivery)
        return True

    def _put_stream(self, delivery: StreamDelivery) -> bool:
        last = self._waiting[-1] if self._waiting else None
        joined = last.growth(delivery) if isinstance(last, StreamDelivery) else None
        growth = delivery.size if joined is None else joined
        if growth > 0 and self._text + growth > self._max_text:
            return False
        if isinstance(last, StreamDelivery) and joined is not None:
            last.join(delivery, joined)
        elif self._streams < self._max_streams:
            self._waiting.append(delivery)
            self._streams += 1
        else:
            return False
        self._text += growth
        return True

    def take(self) -> Delivery | None:
        """Return the next delivery, which now runs, and end the one before; None when there is none."""
        if self._running is not None:
            self._running.over.set()
        self._running = self._waiting.popleft() if self._waiting else None
        if isinstance(self._running, StreamDelivery):
            self._streams -= 1
            self._text -= self._running.size
            self._running.merge()
        return self._running

    def give_up(self) -> None:
        """Give up every delivery that waits or runs."""
        for delivery in (self._running, *self._waiting):
            if delivery is not None:
                delivery.give_up()
        self._running = None
        self._waiting.clear()
        self._streams = self._text = 0
