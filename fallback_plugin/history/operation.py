"""One thing that is asked of a pager, from its call to its end."""

import asyncio
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from fallback_plugin.errors import HostCallError
from fallback_plugin.history.page import Json, Page

Kind: TypeAlias = Literal[
    "open", "reload", "load_older", "load_newer", "jump_to_start", "jump_to_latest", "ensure_all"
]

Outcome: TypeAlias = Literal["applied", "replaced", "refused", "dropped", "failed"]
"""What came of an operation.

``applied``: the window has what was asked for. ``replaced``: that no longer fitted, and the window was loaded
anew. ``refused``: there was nothing to do, or something else is under way. ``dropped``: the answer came too
late. ``failed``: there was none; the pager's ``error`` says why.
"""


@dataclass(eq=False, slots=True)
class Operation:
    """The owner of a pager: until it has ended or was put aside, no page is asked for but by it.

    Attributes:
        epoch: the pager's when it began; its answer counts in no other.
        events: what the host said since the request was sent. Whether the answer knows of it is not known.
    """

    kind: Kind
    epoch: int
    request: "asyncio.Future[Page | None] | None" = None
    events: list[Json] = field(default_factory=list)
    task: asyncio.Task[Outcome] | None = None
    ended: asyncio.Event = field(default_factory=asyncio.Event)

    def ask(self, request: "asyncio.Future[Page | None]") -> None:
        """Wait for another request."""
        self.request = request
        self.events.clear()

    async def answer(self) -> Page:
        """Wait for the request's answer.

        Raises:
            HostCallError: if there is none.
            Exception: what the request raised.
        """
        request = self.request
        if request is None:
            raise HostCallError("nothing was asked")
        try:
            await asyncio.wait([request])
        except asyncio.CancelledError:
            request.cancel()
            raise
        if request.cancelled():
            raise HostCallError("the request for a page of messages was cancelled")
        page = request.result()
        if page is None:
            raise HostCallError("the server answered without messages: sign in again, or check its address")
        return page

    def end(self) -> None:
        """Let those go who wait for the end, and the request with them."""
        if self.request is not None:
            self.request.cancel()
        self.ended.set()
