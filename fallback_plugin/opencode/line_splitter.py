"""Cut a stream of bytes into lines of bounded length."""

from collections.abc import Iterator
from typing import Final

LONGEST_LINE: Final = 32 * 1024 * 1024
"""Bytes of the longest line that either end of the bridge accepts."""


class LineSplitter:
    """Collect chunks and give out whole lines, without their newline.

    A line longer than ``longest`` bytes is skipped and counted in ``skipped``. An unfinished last line stays
    inside and is never given out.
    """

    def __init__(self, longest: int = LONGEST_LINE) -> None:
        self.skipped = 0
        self._longest = longest
        self._pieces: list[bytes] = []
        self._length = 0

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        """Take in a chunk and yield the lines it completes."""
        *ends, rest = chunk.split(b"\n")
        for end in ends:
            self._keep(end)
            if self._length > self._longest:
                self.skipped += 1
            else:
                yield b"".join(self._pieces)
            self._pieces.clear()
            self._length = 0
        self._keep(rest)

    def _keep(self, piece: bytes) -> None:
        self._length += len(piece)
        if self._length > self._longest:
            self._pieces.clear()
        else:
            self._pieces.append(piece)
