"""The process's own stdin and stdout as byte streams, and a stdout that plugins cannot disturb."""

import errno
import os
from typing import Final

import anyio
from anyio.abc import ByteReceiveStream, ByteSendStream

_CHUNK: Final = 1024 * 1024


class FdReceiveStream(ByteReceiveStream):
    """Read a pipe's end by its file descriptor; bytes read before it was made come first."""

    def __init__(self, fd: int, already_read: bytes = b"") -> None:
        self._fd = fd
        self._already_read = already_read
        os.set_blocking(fd, False)

    async def receive(self, max_bytes: int = _CHUNK) -> bytes:
        """Return at least one byte.

        Raises:
            anyio.EndOfStream: when the other end is closed.
        """
        if self._already_read:
            chunk, self._already_read = self._already_read[:max_bytes], self._already_read[max_bytes:]
            return chunk
        while True:
            await anyio.wait_readable(self._fd)
            try:
                chunk = os.read(self._fd, max_bytes)
            except BlockingIOError:
                continue
            except ConnectionResetError:
                raise anyio.EndOfStream from None
            if not chunk:
                raise anyio.EndOfStream
            return chunk

    async def aclose(self) -> None:
        """Close the descriptor."""
        os.close(self._fd)


class FdSendStream(ByteSendStream):
    """Write to a pipe's end by its file descriptor."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        os.set_blocking(fd, False)

    async def send(self, item: bytes) -> None:
        """Write all of ``item``.

        Raises:
            anyio.BrokenResourceError: when nobody reads any more.
        """
        rest = memoryview(item)
        while rest:
            await anyio.wait_writable(self._fd)
            try:
                rest = rest[os.write(self._fd, rest) :]
            except BlockingIOError:
                continue
            except OSError as error:
                if error.errno not in (errno.EPIPE, errno.ECONNRESET):
                    raise
                raise anyio.BrokenResourceError from error

    async def aclose(self) -> None:
        """Close the descriptor."""
        os.close(self._fd)


def claim_stdout() -> int:
    """Return a descriptor of the real stdout, and let everything else that writes there reach stderr.

    The protocol owns stdout: a stray ``print`` of a plugin must not end up between its lines.
    """
    protocol = os.dup(1)
    os.dup2(2, 1)
    return protocol
