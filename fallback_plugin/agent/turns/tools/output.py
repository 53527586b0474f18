"""The output of a command, kept up to a limit: its beginning and its end, for the middle matters least."""

from collections import deque
from typing import Final

MAX_OUTPUT: Final = 32 * 1024
"""Bytes that are kept."""


class CappedOutput:
    """Takes any amount of bytes in bounded memory."""

    def __init__(self, limit: int = MAX_OUTPUT) -> None:
        self._half = limit // 2
        self._head = bytearray()
        self._tail: deque[bytes] = deque()
        self._tail_length = 0
        self._length = 0

    @property
    def truncated(self) -> bool:
        """Whether something was left out."""
        return self._length > 2 * self._half

    def take(self, chunk: bytes) -> None:
        """Take the next bytes in."""
        self._length += len(chunk)
        room = self._half - len(self._head)
        self._head += chunk[:room]
        rest = chunk[room:]
        if rest:
            self._tail.append(rest[-self._half :])
            self._tail_length += len(self._tail[-1])
        while self._tail and self._tail_length - len(self._tail[0]) >= self._half:
            self._tail_length -= len(self._tail.popleft())

    def text(self) -> str:
        """Return what was kept, with a note where the middle is missing."""
        tail = b"".join(self._tail)[-self._half :]
        if not self.truncated:
            return (bytes(self._head) + tail).decode(errors="replace")
        left_out = self._length - len(self._head) - len(tail)
        note = f"\n… {left_out} bytes left out …\n"
        return self._head.decode(errors="replace") + note + tail.decode(errors="replace")
