"""How long a client may take: to say what it wants, and to take what it is sent."""

import asyncio
from typing import Any, Final, cast

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

HEAD_WITHIN_S: Final = 10.0
"""From a connection's beginning, or the first byte of its next request, to the end of that one's head."""

TAKEN_WITHIN_S: Final = 20.0
"""How long a client may leave what it was sent unread, once all buffers are full."""

DRAIN: Final = "drain"
"""The key in a request's ``state`` of a function that waits until all that was sent is on the socket."""


class PatientProtocol(H11Protocol):
    """uvicorn's HTTP, which waits as long as it takes, with limits."""

    head_within_s = HEAD_WITHIN_S
    taken_within_s = TAKEN_WITHIN_S
    _head: asyncio.TimerHandle | None = None
    _taken: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for a head."""
        super().connection_made(transport)
        # Writing is paused for as long as anything waits for the socket, so that `drain` waits for all of it.
        transport.set_write_buffer_limits(high=0)
        self.app_state = {**self.app_state, DRAIN: self.flow.drain}
        self._wait_for_head()

    def data_received(self, data: bytes) -> None:
        """Take bytes in, and wait on if they are not the whole head."""
        super().data_received(data)
        if self.conn.their_state is h11.IDLE:
            self._wait_for_head()
        else:
            self._wait_no_more_for_head()

    def pause_writing(self) -> None:
        """Begin to wait for the client to read."""
        super().pause_writing()
        # To close would wait for the client as well.
        self._taken = self.loop.call_later(self.taken_within_s, cast("Any", self.transport).abort)

    def resume_writing(self) -> None:
        """See the client read."""
        if self._taken is not None:
            self._taken.cancel()
        super().resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        self._wait_no_more_for_head()
        if self._taken is not None:
            self._taken.cancel()
        super().connection_lost(exc)

    def _wait_for_head(self) -> None:
        if self._head is None:
            self._head = self.loop.call_later(self.head_within_s, cast("Any", self.transport).close)

    def _wait_no_more_for_head(self) -> None:
        if self._head is not None:
            self._head.cancel()
            self._head = None
