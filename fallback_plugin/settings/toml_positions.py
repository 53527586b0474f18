"""Where each key of a TOML document stands: the parser tells what a key holds, not where it is."""

import re
from bisect import bisect_right
from typing import Final, NamedTuple, TypeAlias

import tomli

KeyPath: TypeAlias = tuple[str | int, ...]
"""The keys from the root to a value; a number is a place in a list."""

_SPACE: Final = re.compile(r"[ \t]*")
_BLANK: Final = re.compile(r"[ \t\r\n]*(?:#[^\n]*[ \t\r\n]*)*")
_BARE_KEY: Final = re.compile(r"[^ \t.=\]]*")
_SCALAR: Final = re.compile(r"[^,\]}#\r\n]*")
# Up to two quotes may stand right before the closing three.
_STRING: Final = re.compile(
    r"""  "{3} (?:\\.|[^\\])*? "{3,5}
        | '{3} .*? '{3,5}
        | " (?:\\.|[^"\\])* "
        | ' [^']* '
    """,
    re.DOTALL | re.VERBOSE,
)


class Position(NamedTuple):
    """A place in a text; both count from 1."""

    line: int
    column: int


def toml_positions(text: str) -> dict[KeyPath, Position]:
    """Return the position of every key, table and list element of a document.

    ``text`` must be valid TOML 1.1 (``tomli.loads`` takes it); for other text the result means nothing.
    A table that several headers open keeps the place of the first.
    """
    scanner = _Scanner(text)
    scanner.document()
    starts = [0, *(at + 1 for at, character in enumerate(text) if character == "\n")]
    positions = {}
    for path, at in scanner.found.items():
        line = bisect_right(starts, at)
        positions[path] = Position(line, at - starts[line - 1] + 1)
    return positions


class _Scanner:
    """A walk over valid TOML that keeps the offset of each key's first mention."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.found: dict[KeyPath, int] = {}
        self.list_lengths: dict[KeyPath, int] = {}

    def document(self) -> None:
        table: KeyPath = ()
        self.skip(_BLANK)
        while self.at < len(self.text):
            if self.peek() == "[":
                table = self.header()
            else:
                self.pair(table)
            self.skip(_BLANK)

    def header(self) -> KeyPath:
        start = self.at
        is_list = self.text.startswith("[[", self.at)
        self.at += 2 if is_list else 1
        path: KeyPath = ()
        keys = self.keys()
        for index, (key, _) in enumerate(keys):
            path = (*path, key)
            self.found.setdefault(path, start)
            last = index == len(keys) - 1
            if last and is_list:
                length = self.list_lengths.get(path, 0)
                self.list_lengths[path] = length + 1
                path = (*path, length)
                self.found[path] = start
            elif not last and path in self.list_lengths:
                path = (*path, self.list_lengths[path] - 1)
        self.at += 2 if is_list else 1
        return path

    def pair(self, table: KeyPath) -> None:
        path = table
        for key, at in self.keys():
            path = (*path, key)
            self.found.setdefault(path, at)
        self.at += len("=")
        self.skip(_SPACE)
        self.value(path)

    def keys(self) -> list[tuple[str, int]]:
        """Read a dotted key: its parts with their offsets; stop at the ``=`` or ``]`` behind it."""
        keys = []
        while True:
            self.skip(_SPACE)
            start = self.at
            if self.peek() in "\"'":
                self.skip(_STRING)
                key = str(tomli.loads(f"key = {self.text[start : self.at]}")["key"])
            else:
                self.skip(_BARE_KEY)
                key = self.text[start : self.at]
            keys.append((key, start))
            self.skip(_SPACE)
            if self.peek() != ".":
                return keys
            self.at += len(".")

    def value(self, path: KeyPath) -> None:
        match self.peek():
            case '"' | "'":
                self.skip(_STRING)
            case "[":
                self.array(path)
            case "{":
                self.inline_table(path)
            case _:
                self.skip(_SCALAR)

    def array(self, path: KeyPath) -> None:
        self.at += len("[")
        length = 0
        self.skip(_BLANK)
        while self.peek() not in ("]", ""):
            element = (*path, length)
            self.found[element] = self.at
            self.value(element)
            length += 1
            self.skip_comma()
        self.at += len("]")

    def inline_table(self, path: KeyPath) -> None:
        self.at += len("{")
        self.skip(_BLANK)
        while self.peek() not in ("}", ""):
            self.pair(path)
            self.skip_comma()
        self.at += len("}")

    def peek(self) -> str:
        return self.text[self.at : self.at + 1]

    def skip(self, pattern: re.Pattern[str]) -> None:
        if match := pattern.match(self.text, self.at):
            self.at = match.end()

    def skip_comma(self) -> None:
        self.skip(_BLANK)
        if self.peek() == ",":
            self.at += 1
        self.skip(_BLANK)
