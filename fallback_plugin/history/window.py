"""The contiguous slice of a session that a client holds, and how pages are laid beside it."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TypeAlias

from fallback_plugin.errors import WireError
from fallback_plugin.history.page import Message, Order, Page, PageRequest

Messages: TypeAlias = tuple[Message, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """A contiguous slice, oldest first.

    Attributes:
        session_id: whose messages these are; None for nobody's.
        older: the cursor of its old end; None if nothing stands before it.
        newer: the cursor of its new end; None if nothing stands after it.
        revision: the session's, as the last page told it.
        is_loss_told: whether events told of lost messages since then: they explain a higher revision.
        lowest: the position where the old end is, None where it is not known.
        highest: the position of the last message before ``newer``, None where it is not known.
        reverted_to: the message from which on everything is hidden until the next prompt deletes it.
    """

    session_id: str | None = None
    messages: Messages = ()
    older: str | None = None
    newer: str | None = None
    revision: int = 0
    is_loss_told: bool = False
    lowest: int | None = None
    highest: int | None = None
    reverted_to: str | None = None

    @property
    def visible(self) -> Messages:
        """The messages that no revert hides."""
        if self.reverted_to is None:
            return self.messages
        for index, message in enumerate(self.messages):
            if message.id == self.reverted_to:
                return self.messages[:index]
        is_before = self.newer is None and self.older is not None
        return () if is_before else self.messages

    def covers(self, position: int | None) -> bool:
        """Tell whether a message at a position belongs between the two ends.

        Without a position nobody can tell, and a message that is not held is taken for a new one.
        """
        if position is None:
            return self.newer is None
        is_after_start = self.older is None or self.lowest is None or position >= self.lowest
        is_before_end = self.newer is None or (self.highest is not None and position <= self.highest)
        return is_after_start and is_before_end

    def first_page(self, limit: int) -> PageRequest | None:
        """Return the request for the session's first messages."""
        return self._page(limit, order="asc")

    def latest_page(self, limit: int) -> PageRequest | None:
        """Return the request for the session's last messages."""
        return self._page(limit)

    def same_page(self, limit: int) -> PageRequest | None:
        """Return the request for what is held: the last messages, or those from the old end on."""
        return self._page(limit) if self.newer is None else self._page(limit, order="asc", after=self.older)

    def older_page(self, limit: int) -> PageRequest | None:
        """Return the request for what stands before the window; None if nothing does."""
        return None if self.older is None else self._page(limit, before=self.older)

    def newer_page(self, limit: int) -> PageRequest | None:
        """Return the request for what stands after the window; None if nothing does."""
        return None if self.newer is None else self._page(limit, order="asc", after=self.newer)

    def is_beside(self, request: PageRequest) -> bool:
        """Tell whether a page that was asked for still belongs at one of the ends."""
        return request.before == self.older if request.order == "desc" else request.after == self.newer

    def _page(
        self, limit: int, order: Order = "desc", *, before: str | None = None, after: str | None = None
    ) -> PageRequest | None:
        if self.session_id is None:
            return None
        return PageRequest(session_id=self.session_id, limit=limit, order=order, before=before, after=after)


def loaded(window: Window, request: PageRequest, page: Page) -> Window:
    """Return a page as a window of its own; ``window`` is the one it was asked for.

    Raises:
        WireError: if the page is out of order, holds a message twice or leads to itself.
    """
    used, following = request.before or request.after, page.next_before or page.next_after
    older, newer = page.next_before, request.before
    if request.order == "asc":
        older, newer = request.after, page.next_after
    messages = _read(page, older)
    if (used is not None and used == following) or not _is_ascending(messages):
        raise WireError(f"a page of session {request.session_id} is out of order: load it again")
    return Window(
        session_id=request.session_id,
        messages=messages,
        older=older,
        newer=newer,
        revision=page.revision,
        # The same place may be known from a message that is gone by now.
        lowest=window.lowest if older == window.older else _position(messages[:1]),
        highest=_position(messages[-1:]),
        reverted_to=window.reverted_to,
    )


def joined(window: Window, page: Window, bound: int, *, is_older: bool) -> Window | None:
    """Return a window with a page before it or behind it; None if they do not belong together.

    They do not if messages were lost that no event told of, or if ids and positions contradict each other.
    The far end is given up where the window gets longer than ``bound``.
    """
    is_lost = page.revision > window.revision and not window.is_loss_told
    if is_lost or page.revision < window.revision:
        return None
    left, right = (page, window) if is_older else (window, page)
    messages = _merged(left.messages, right.messages, window.messages)
    if messages is None:
        return None
    grown = replace(
        window,
        messages=messages,
        older=left.older,
        newer=right.newer,
        revision=page.revision,
        is_loss_told=window.is_loss_told and page.revision == window.revision,
        lowest=window.lowest if left.lowest is None else left.lowest,
        highest=window.highest if right.highest is None else right.highest,
    )
    cut = without_newest if is_older else without_oldest
    return cut(grown, bound, len(page.messages))


def without_oldest(window: Window, bound: int, spare: int) -> Window:
    """Return a window of at most ``bound`` messages; the ``spare`` newest stay in any case.

    It is cut where a cursor is known. Where a server tells none, it stays too long.
    """
    messages = window.messages
    if len(messages) <= bound:
        return window
    for index in range(len(messages) - bound, len(messages) - max(spare, 1) + 1):
        if (cursor := messages[index].cursor) is not None:
            return replace(window, messages=messages[index:], older=cursor, lowest=messages[index].position)
    return window


def without_newest(window: Window, bound: int, spare: int) -> Window:
    """Return a window of at most ``bound`` messages; the ``spare`` oldest stay in any case."""
    messages = window.messages
    if len(messages) <= bound:
        return window
    for index in range(bound, max(spare, 1) - 1, -1):
        if (cursor := messages[index].cursor) is not None:
            return replace(
                window, messages=messages[:index], newer=cursor, highest=messages[index - 1].position
            )
    return window


def _read(page: Page, start: str | None) -> Messages:
    """Return a page's messages; ``start`` is the cursor of its old end."""
    messages = tuple(Message.from_item(item) for item in page.items)
    if messages and messages[0].cursor is None:
        return (replace(messages[0], cursor=start), *messages[1:])
    return messages


def _merged(left: Messages, right: Messages, held: Messages) -> Messages | None:
    """Return two slices as one, what both hold as it is held; None if they do not meet in one order."""
    overlap = len({message.id for message in left} & {message.id for message in right})
    split = len(left) - overlap
    if [message.id for message in left[split:]] != [message.id for message in right[:overlap]]:
        return None
    messages = left + right[overlap:] if held is left else left[:split] + right
    return messages if _is_ascending(messages) else None


def _is_ascending(messages: Sequence[Message]) -> bool:
    positions = [message.position for message in messages if message.position is not None]
    is_in_order = all(first < second for first, second in pairwise(positions))
    return is_in_order and len({message.id for message in messages}) == len(messages)


def _position(messages: Messages) -> int | None:
    return messages[0].position if messages else None
