"""What a client may ask of a session's history, in any order and at any time.

One operation is under way at a time, and belongs to an *epoch*. What replaces the window begins a new epoch
at once, before anything is awaited, and an answer counts only in the epoch of its question.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable
from typing import Final, Literal

from fallback_plugin.history.events import applied, message_of, session_of
from fallback_plugin.history.operation import Kind, Operation, Outcome
from fallback_plugin.history.page import Fetch, Json, Page, PageRequest
from fallback_plugin.history.window import Messages, Window, joined, loaded


def _nothing() -> None:
    pass


class HistoryPager:
    """A window on one session's messages, changed by pages, jumps and events, and by each as a whole.

    Belongs to one event loop. An operation takes effect when it is called, awaited or not; awaited, it gives
    its `Outcome`, and whoever cancels the waiting gives the operation up.

    Args:
        fetch: asks the server. It may raise, never answer, or answer although it was cancelled.
        session_id: the session to begin with; the first operation loads it.
        page_rows: messages of one request.
        window_rows: how many messages are kept, at least two pages.
        changed: called after each change, when the window is whole again.
    """

    def __init__(
        self,
        fetch: Fetch,
        session_id: str | None = None,
        *,
        page_rows: int = 50,
        window_rows: int = 400,
        changed: Callable[[], None] = _nothing,
    ) -> None:
        if page_rows < 1 or window_rows < 2 * page_rows:
            raise ValueError(f"{window_rows=} should be at least twice {page_rows=}, and that at least 1")
        self._fetch: Final = fetch
        self._page_rows: Final = page_rows
        self._window_rows: Final = window_rows
        self._changed: Final = changed
        self._tasks: Final[set[asyncio.Task[Outcome]]] = set()
        self._window = Window(session_id=session_id)
        self._bound = window_rows
        self._is_current = False
        self._operation: Operation | None = None
        self._epoch = 0
        self._error: Exception | None = None

    @property
    def session_id(self) -> str | None:
        """The session whose messages these are."""
        return self._window.session_id

    @property
    def window(self) -> Window:
        """What is held, and the cursors of its ends."""
        return self._window

    @property
    def messages(self) -> Messages:
        """The messages that are held, oldest first."""
        return self._window.messages

    @property
    def is_current(self) -> bool:
        """Whether the window was loaded, and no event was missed since."""
        return self._is_current

    @property
    def epoch(self) -> int:
        """How often the window was to be replaced, or a request was given up."""
        return self._epoch

    @property
    def under_way(self) -> Kind | None:
        """The operation that waits for the server."""
        return None if self._operation is None else self._operation.kind

    @property
    def error(self) -> Exception | None:
        """Why the last operation failed; None once another has begun."""
        return self._error

    def open(self, session_id: str, *, reverted_to: str | None = None) -> asyncio.Future[Outcome]:
        """Show the newest messages of a session, and nothing until they are there."""
        self._window = Window(session_id=session_id, reverted_to=reverted_to)
        self._is_current = False
        return self._replace("open", self._window.latest_page(self._page_rows))

    def close(self) -> None:
        """Show no session."""
        self._begin_epoch()
        self._window = Window()
        self._is_current = False
        self._changed()

    def cancel(self) -> None:
        """Give up what is under way, for instance because it takes too long."""
        if self._operation is not None:
            self._begin_epoch()
            self._changed()

    def reload(self) -> asyncio.Future[Outcome]:
        """Load again what is held: as many messages, the newest or those from the same old end on."""
        limit = max(self._page_rows, min(len(self.messages), self._bound))
        return self._replace("reload", self._window.same_page(limit))

    def load_older(self) -> asyncio.Future[Outcome]:
        """Put the page before the window in front of it."""
        return self._extend("load_older", self._window.older_page(self._page_rows))

    def load_newer(self) -> asyncio.Future[Outcome]:
        """Put the page after the window behind it. There is one once the window has left the newest end."""
        return self._extend("load_newer", self._window.newer_page(self._page_rows))

    def jump_to_start(self) -> asyncio.Future[Outcome]:
        """Show the session's first page. `load_newer` goes on from there, `jump_to_latest` goes back."""
        return self._jump("jump_to_start", self._window.first_page(self._page_rows), self._window.older)

    def jump_to_latest(self) -> asyncio.Future[Outcome]:
        """Show the session's last page."""
        return self._jump("jump_to_latest", self._window.latest_page(self._page_rows), self._window.newer)

    def ensure_all(self, *, max_rows: int, max_bytes: int) -> AsyncGenerator[Page]:
        """Load what is not held page by page, older messages first, and yield each page.

        It ends when the session is held, or ``max_rows`` messages, or the page was added with which this has
        loaded ``max_bytes`` of JSON; ``window.older`` and ``window.newer`` tell which. It ends too when
        something replaces the window. A second one waits for the first and yields nothing. Close one that
        you leave early.

        Raises:
            Exception: why there was no page.
        """
        running = self._operation
        if running is not None and running.kind == "ensure_all":
            return _nothing_until(running)
        self._begin_epoch()
        return self._all_pages(self._epoch, max_rows, max_bytes)

    async def idle(self) -> None:
        """Wait until nothing is under way."""
        while self._operation is not None:
            await self._operation.ended.wait()

    def handle(self, event: Json) -> None:
        """Take in an event of the host, ``{type, properties}``, of whichever session."""
        match event:
            case {"type": "server.events.lost"}:
                self._is_current = False
                self.reload()
            case _ if self.session_id is None or session_of(event) != self.session_id:
                pass
            case {"type": "session.deleted"}:
                self.close()
            case {"type": "session.compacted", "properties": {"continuedBy": str(session_id)}}:
                self.open(session_id)
            case {"type": "session.compacted"}:
                self.reload()
            case _:
                self._apply(event)

    def _apply(self, event: Json) -> None:
        if self._operation is not None:
            self._operation.events.append(event)
        if not self._is_current:
            return
        window = applied(self._window, event, self._bound)
        if window is not self._window:
            self._window = window
            self._changed()

    def _begin_epoch(self) -> None:
        """Let no answer count that was asked for before, and put aside who waits for one."""
        self._epoch += 1
        operation, self._operation = self._operation, None
        if operation is not None:
            operation.end()

    def _replace(self, kind: Kind, request: PageRequest | None) -> asyncio.Future[Outcome]:
        if request is None:
            return _settled("refused")
        self._begin_epoch()
        return self._begin(kind, request, is_extension=False)

    def _jump(self, kind: Kind, request: PageRequest | None, end: str | None) -> asyncio.Future[Outcome]:
        running = self._operation
        if running is not None and running.kind == kind and running.task is not None:
            return asyncio.shield(running.task)
        if running is None and self._is_current and end is None:
            return _settled("refused")
        return self._replace(kind, request)

    def _extend(
        self, kind: Literal["load_older", "load_newer"], request: PageRequest | None
    ) -> asyncio.Future[Outcome]:
        if self._operation is not None:
            return _settled("refused")
        if not self._is_current:
            return self.reload()
        if request is None:
            return _settled("refused")
        return self._begin(kind, request, is_extension=True)

    def _begin(self, kind: Kind, request: PageRequest, *, is_extension: bool) -> asyncio.Future[Outcome]:
        operation = self._own(kind)
        operation.ask(asyncio.ensure_future(self._fetch(request)))
        operation.task = task = asyncio.ensure_future(
            self._carry_out(operation, request, is_extension=is_extension)
        )
        self._tasks.add(task)
        # Not in the task: one that is cancelled before its first step runs none of its body.
        task.add_done_callback(lambda _: self._release(operation))
        task.add_done_callback(self._tasks.discard)
        self._changed()
        return task

    def _own(self, kind: Kind) -> Operation:
        self._error = None
        self._operation = Operation(kind, self._epoch)
        return self._operation

    def _release(self, operation: Operation) -> None:
        if self._operation is operation:
            self._operation = None
            operation.end()
            self._changed()

    async def _carry_out(self, operation: Operation, request: PageRequest, *, is_extension: bool) -> Outcome:
        try:
            page = await operation.answer()
            outcome = self._take(operation, request, page, self._bound if is_extension else None)
            if outcome == "replaced":
                anew = await self.reload()
                return outcome if anew == "applied" else anew
        except Exception as error:  # noqa: BLE001 -- whatever the fetch raises is for the person to see
            return self._failed(operation, error)
        else:
            return outcome

    async def _all_pages(self, epoch: int, max_rows: int, max_bytes: int) -> AsyncGenerator[Page]:
        if epoch != self._epoch:
            return
        if self._operation is not None:
            self._begin_epoch()
        operation = self._own("ensure_all")
        bound = max(self._bound, max_rows)
        loaded_bytes = 0
        self._changed()
        try:
            while loaded_bytes < max_bytes and (request := self._missing_page(max_rows)) is not None:
                operation.ask(asyncio.ensure_future(self._fetch(request)))
                page = await operation.answer()
                outcome = self._take(operation, request, page, bound if self._is_current else None)
                if outcome == "replaced":
                    await self.reload()
                if outcome != "applied":
                    return
                self._bound = bound
                loaded_bytes += page.size_bytes
                self._changed()
                yield page
        except Exception as error:
            if self._failed(operation, error) == "failed":
                raise
        finally:
            self._release(operation)

    def _missing_page(self, max_rows: int) -> PageRequest | None:
        window = self._window
        if not self._is_current:
            return window.same_page(min(self._page_rows, max_rows))
        limit = min(self._page_rows, max_rows - len(window.messages))
        return None if limit < 1 else window.older_page(limit) or window.newer_page(limit)

    def _take(
        self, operation: Operation, request: PageRequest, page: Page, bound: int | None
    ) -> Literal["applied", "dropped", "replaced"]:
        """Lay a page beside the window, or put it in its place where no ``bound`` is given.

        What the host said since the page was asked for is said to the page too. ``replaced``: it does not
        fit, and everything has to be loaded.
        """
        if operation.epoch != self._epoch or (bound and not self._window.is_beside(request)):
            return "dropped"
        window = loaded(self._window, request, page)
        held = {message.id for message in self.messages} if bound else set()
        for event in operation.events:
            if message_of(event) not in held:
                window = applied(window, event, self._window_rows)
        if bound:
            beside = joined(self._window, window, bound, is_older=request.before is not None)
            if beside is None:
                return "replaced"
            window = beside
        self._window = window
        self._bound = bound or self._window_rows
        self._is_current = True
        return "applied"

    def _failed(self, operation: Operation, error: Exception) -> Outcome:
        if operation.epoch != self._epoch:
            return "dropped"
        self._error = error
        return "failed"


def _settled(outcome: Outcome) -> asyncio.Future[Outcome]:
    future: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
    future.set_result(outcome)
    return future


async def _nothing_until(operation: Operation) -> AsyncGenerator[Page]:
    await operation.ended.wait()
    pages: tuple[Page, ...] = ()
    for page in pages:
        yield page
