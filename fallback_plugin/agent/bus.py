"""What was committed is told to all who listen. The bus keeps nothing: the log of events is the truth."""

from collections.abc import Callable, Sequence
from typing import Final, TypeVar

import anyio

from fallback_plugin.agent.records import HostEvent, PassingEvent, StoredEvent
from fallback_plugin.agent.store import Rows, Store, events, parts
from fallback_plugin.agent.store.parts import OpenPart
from fallback_plugin.agent.subscription import Subscription, Wanted

CAPACITY: Final = 4096
"""Events that wait for one listener before it has to read the log."""

T = TypeVar("T")


def _everything(_: HostEvent) -> bool:
    return True


class Bus:
    """Publishes what the store commits. Belongs to the event loop."""

    def __init__(self, store: Store, *, capacity: int = CAPACITY) -> None:
        self._store: Final = store
        self._capacity: Final = capacity
        self._subscriptions: Final[set[Subscription]] = set()
        self._lagging: Final[dict[Subscription, int]] = {}
        self._last = store.last_event
        store.listen(self._committed)

    @property
    def listeners(self) -> int:
        """How many listen."""
        return len(self._subscriptions)

    def publish(self, event: PassingEvent) -> None:
        """Tell those who listen now of something that is not stored, such as a toast."""
        self._committed([event])

    def subscribe(self, *, after: int | None = None, wanted: Wanted = _everything) -> Subscription:
        """Listen from now on, or from the row after a sequence on: what a listener that comes back knows."""
        subscription = Subscription(
            self._store,
            after=self._last if after is None else after,
            published=self._last,
            is_behind=after is not None,
            wanted=wanted,
            capacity=self._capacity,
            closed=self._forget,
        )
        self._subscriptions.add(subscription)
        return subscription

    async def snapshot(
        self, ask: Callable[[Rows], T], *, wanted: Wanted = _everything
    ) -> tuple[T, Subscription]:
        """Read the store and listen: the subscription goes on exactly where the answer ends.

        Raises:
            AgentError: whatever ``ask`` raises; nothing listens then.
        """

        def work(rows: Rows) -> tuple[T, int, list[OpenPart]]:
            return ask(rows), events.last_sequence(rows), parts.open_ones(rows)

        subscription = self.subscribe(wanted=wanted)
        try:
            answer, sequence, open_parts = await self._store.read(work)
        except BaseException:
            subscription.close()
            raise
        subscription.begin_at(sequence, open_parts)
        return answer, subscription

    async def until_taken(self, *, within_s: float) -> None:
        """Wait until every listener has dealt with the rows that were published up to now.

        A listener that does not do so in time is not waited for again until it has.
        """
        waiting = {each: each.offered for each in self._subscriptions if not self._is_lagging(each)}
        with anyio.move_on_after(within_s):
            for each, offered in waiting.items():
                await each.until_taken(offered)
        for each, offered in waiting.items():
            if each in self._subscriptions and each.taken < offered:
                self._lagging[each] = offered

    def close(self) -> None:
        """Let every listener go once it has heard what there is."""
        for subscription in self._subscriptions:
            subscription.end()
        self._subscriptions.clear()
        self._lagging.clear()

    def _forget(self, subscription: Subscription) -> None:
        self._subscriptions.discard(subscription)
        self._lagging.pop(subscription, None)

    def _is_lagging(self, subscription: Subscription) -> bool:
        if subscription.taken < self._lagging.get(subscription, 0):
            return True
        self._lagging.pop(subscription, None)
        return False

    def _committed(self, published: Sequence[HostEvent]) -> None:
        for event in published:
            if isinstance(event, StoredEvent):
                self._last = event.sequence
            for subscription in self._subscriptions:
                subscription.offer(event, self._last)
