"""How long a connection may take to say what it wants."""

import asyncio
from typing import Any, Final, cast

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

HEAD_WITHIN_S: Final = 10.0
"""From a connection's beginning, or the first byte of its next request, to the end of that one's head."""


class PatientProtocol(H11Protocol):
    """uvicorn's HTTP with a limit on the head of a request, which it waits for as long as it takes."""

    head_within_s = HEAD_WITHIN_S
    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait."""
        super().connection_made(transport)
        self._wait()

    def data_received(self, data: bytes) -> None:
        """Take bytes in, and wait on if they are not the whole head."""
        super().data_received(data)
        if self.conn.their_state is h11.IDLE:
            self._wait()
        else:
            self._wait_no_more()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        self._wait_no_more()
        super().connection_lost(exc)

    def _wait(self) -> None:
        if self._deadline is None:
            close = cast("Any", self.transport).close
            self._deadline = self.loop.call_later(self.head_within_s, close)

    def _wait_no_more(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
