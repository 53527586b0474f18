"""One listener: a bounded buffer, and the log of events behind it for whoever falls behind or comes back."""

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from typing import Final, Self, TypeAlias

from fallback_plugin.agent.records import HostEvent, PassingEvent, StoredEvent
from fallback_plugin.agent.store import Rows, Store, events, parts
from fallback_plugin.agent.store.events import EventPage
from fallback_plugin.agent.store.parts import OpenPart

EVENTS_LOST: Final = "server.events.lost"
"""Tells a listener that came back too late that rows between are gone: it has to read the sessions anew."""

Wanted: TypeAlias = Callable[[HostEvent], bool]


class Subscription:
    """The events for one listener, in the order of the commits; iterate over it, and close it at the end.

    A listener that is slower than its buffer is long loses growing text and toasts only: rows are read again
    from the log, and each text that still grows is then told whole, so that what follows fits.
    """

    def __init__(
        self,
        store: Store,
        *,
        after: int,
        published: int,
        is_behind: bool,
        wanted: Wanted,
        capacity: int,
        closed: Callable[["Subscription"], None],
    ) -> None:
        self._store: Final = store
        self._wanted: Final = wanted
        self._capacity: Final = capacity
        self._closed: Final = closed
        self._arrived: Final = asyncio.Event()
        self._live: Final[deque[tuple[HostEvent, int]]] = deque()
        self._read: Final[deque[HostEvent]] = deque()
        self._is_behind = is_behind
        self._is_ended = False
        self._last = after
        self._offered = published
        self._taken = after
        self._progress: asyncio.Event | None = None
        self._is_closed = False
        self._snapshot_at = 0
        self._lengths: dict[str, int] = {}

    @property
    def last(self) -> int:
        """The sequence of the last row that was told of, or that this listens after."""
        return self._last

    @property
    def offered(self) -> int:
        """The sequence of the last row that was published for this listener."""
        return self._offered

    @property
    def taken(self) -> int:
        """The sequence of the last row that the listener has dealt with: it has asked for what follows."""
        return self._taken

    async def until_taken(self, sequence: int) -> None:
        """Wait until the listener has dealt with a row and all before it, or is closed."""
        while self._taken < sequence and not self._is_closed:
            self._progress = self._progress or asyncio.Event()
            await self._progress.wait()

    def offer(self, event: HostEvent, last: int) -> None:
        """Take an event in; ``last`` is the sequence of the last row that was published before or with it."""
        if not self._wanted(event):
            return
        if isinstance(event, StoredEvent):
            self._offered = event.sequence
        if self._is_behind:
            return
        if len(self._live) >= self._capacity:
            self._live.clear()
            self._is_behind = True
        else:
            self._live.append((event, last))
        self._arrived.set()

    def begin_at(self, sequence: int, open_parts: Iterable[OpenPart]) -> None:
        """Leave out what a snapshot holds already that was taken since this listens."""
        self._last = self._snapshot_at = sequence
        self._lengths = {str(part.body["id"]): len(str(part.body.get("text", ""))) for part in open_parts}

    def end(self) -> None:
        """Let the listener go once it has heard what there is."""
        self._is_ended = True
        self._arrived.set()

    def close(self) -> None:
        """Listen no more."""
        self.end()
        self._is_closed = True
        self._wake_waiting()
        self._closed(self)

    def __enter__(self) -> Self:
        """Return itself, to be closed at the end of the block."""
        return self

    def __exit__(self, *_: object) -> None:
        """Listen no more."""
        self.close()

    def __aiter__(self) -> Self:
        """Return itself."""
        return self

    async def __anext__(self) -> HostEvent:
        """Wait for the next event. A caller that gives up waiting misses none.

        To ask for it says that all earlier ones have been dealt with, those of `ready` included.

        Raises:
            StoreError: if the log cannot be read.
        """
        while True:
            self._note_taken()
            if (event := self.ready()) is not None:
                return event
            if self._is_behind:
                await self._catch_up()
            elif self._is_ended:
                raise StopAsyncIteration
            else:
                self._arrived.clear()
                await self._arrived.wait()

    def ready(self) -> HostEvent | None:
        """Return the next event if it is here already, so that several can be sent as one piece."""
        if self._read:
            return self._read.popleft()
        while self._live and not self._is_behind:
            event, last = self._live.popleft()
            if self._is_new(event, last):
                return event
        return None

    async def _catch_up(self) -> None:
        """Read the next rows of the log, and after the last of them the texts that still grow."""
        self._live.clear()
        # What comes from here on is kept, and what of it the answer holds already is left out later.
        self._is_behind = False
        try:
            page, open_parts = await self._store.read(self._ask)
        except BaseException:
            self._is_behind = True
            raise
        if page.has_gap:
            self._read.append(
                PassingEvent(session_id=None, type=EVENTS_LOST, properties={"after": self._last})
            )
        self._read.extend(filter(self._wanted, page.events))
        if not page.is_last:
            self._last, self._is_behind = page.through, True
            return
        self.begin_at(page.through, open_parts)
        self._read.extend(filter(self._wanted, map(_whole, open_parts)))

    def _note_taken(self) -> None:
        # While rows of the log are handed out, `_last` is the last of them.
        if not self._read and self._taken < self._last:
            self._taken = self._last
            self._wake_waiting()

    def _wake_waiting(self) -> None:
        if self._progress is not None:
            self._progress.set()
            self._progress = None

    def _ask(self, rows: Rows) -> tuple[EventPage, list[OpenPart]]:
        page = events.after(rows, self._last)
        return page, parts.open_ones(rows) if page.is_last else []

    def _is_new(self, event: HostEvent, last: int) -> bool:
        if isinstance(event, StoredEvent):
            if event.sequence <= self._last:
                return False
            self._last = event.sequence
            if event.type == "message.part.updated":
                self._lengths.pop(str(event.properties["part"].get("id")), None)
            return True
        if event.part_id is None:
            return True
        return last >= self._snapshot_at and event.end > self._lengths.get(event.part_id, 0)


def _whole(part: OpenPart) -> PassingEvent:
    return PassingEvent(
        session_id=part.session_id,
        type="message.part.updated",
        properties={"sessionID": part.session_id, "part": part.body},
    )
