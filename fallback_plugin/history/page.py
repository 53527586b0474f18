"""What is asked of a server and what it answers: pages of a session's messages.

A cursor is the server's own, and stands between two messages. What comes ``before`` it and what comes
``after`` it are the whole session: the two meet there, with nothing twice and nothing left out. It keeps
its meaning when messages beside it are removed.
"""

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Self, TypeAlias

from fallback_plugin.errors import WireError

Json: TypeAlias = Mapping[str, Any]
Order: TypeAlias = Literal["asc", "desc"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PageRequest:
    """A request for at most ``limit`` messages.

    Attributes:
        order: ``desc`` for the last messages, those before ``before`` if it is given; ``asc`` for the first
            ones, those after ``after`` if it is given. The answer is oldest first in both.
    """

    session_id: str
    limit: int
    order: Order = "desc"
    before: str | None = None
    after: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """A contiguous slice of a session, oldest first.

    Attributes:
        items: ``{info, parts}`` each, as OpenCode has them. A server may add ``position``, a number that
            grows with every message of a session, and ``cursor``, the place just before the message.
        next_before: what leads to the messages before these; None if there are none (``desc``).
        next_after: what leads to the messages after these; None if there are none (``asc``).
        revision: a number that grows whenever the session loses messages.
    """

    items: Sequence[Json]
    next_before: str | None = None
    next_after: str | None = None
    revision: int = 0

    @property
    def size_bytes(self) -> int:
        """How long the items are as JSON."""
        return sum(
            len(json.dumps(item, ensure_ascii=False, separators=(",", ":")).encode()) for item in self.items
        )


Fetch: TypeAlias = Callable[[PageRequest], Awaitable[Page | None]]
"""Carries a request to the server. None is an answer without data, such as a redirection to a login."""


@dataclass(frozen=True, slots=True)
class Message:
    """A message with its parts. ``position`` and ``cursor`` are None where the server does not tell."""

    id: str
    info: Json
    parts: tuple[Json, ...] = ()
    position: int | None = None
    cursor: str | None = None

    @classmethod
    def from_item(cls, item: Json) -> Self:
        """Read one item of a page.

        Raises:
            WireError: if it has no id.
        """
        match item:
            case {"info": {"id": str(message_id)} as info}:
                parts = tuple(item.get("parts") or ())
                return cls(message_id, info, parts, item.get("position"), item.get("cursor"))
            case _:
                raise WireError(f"an item of a page has no info with an id: {str(item)[:200]}")
