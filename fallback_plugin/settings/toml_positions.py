"""Where each key of a TOML document stands: the parser tells what a key holds, not where it is."""

from bisect import bisect_right
from typing import Final, NamedTuple, TypeAlias

import tomli

KeyPath: TypeAlias = tuple[str | int, ...]
"""The keys from the root to a value; a number is a place in a list."""

_SPACE: Final = " \t"
_LINE_ENDS: Final = "\r\n"
_SCALAR_ENDS: Final = ",]}#\r\n"
_BARE_KEY_ENDS: Final = " \t.=]"


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
        self.skip_blank()
        while self.at < len(self.text):
            if self.peek() == "[":
                table = self.header()
            else:
                self.pair(table)
            self.skip_blank()

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
                self.string()
                key = str(tomli.loads(f"key = {self.text[start : self.at]}")["key"])
            else:
                self.skip_to(_BARE_KEY_ENDS)
                key = self.text[start : self.at]
            keys.append((key, start))
            self.skip(_SPACE)
            if self.peek() != ".":
                return keys
            self.at += len(".")

    def value(self, path: KeyPath) -> None:
        match self.peek():
            case '"' | "'":
                self.string()
            case "[":
                self.array(path)
            case "{":
                self.inline_table(path)
            case _:
                self.skip_to(_SCALAR_ENDS)

    def array(self, path: KeyPath) -> None:
        self.at += len("[")
        length = 0
        self.skip_blank()
        while self.peek() not in ("]", ""):
            element = (*path, length)
            self.found[element] = self.at
            self.value(element)
            length += 1
            self.skip_comma()
        self.at += len("]")

    def inline_table(self, path: KeyPath) -> None:
        self.at += len("{")
        self.skip_blank()
        while self.peek() not in ("}", ""):
            self.pair(path)
            self.skip_comma()
        self.at += len("}")

    def string(self) -> None:
        quote = self.peek()
        long = self.text.startswith(quote * 3, self.at)
        self.at += 3 if long else 1
        while self.at < len(self.text):
            if quote == '"' and self.peek() == "\\":
                self.at += 2
            elif not long and self.peek() == quote:
                self.at += 1
                return
            elif long and self.text.startswith(quote * 3, self.at):
                # Up to two quotes may stand right before the closing three.
                run = next((n for n in (5, 4) if self.text.startswith(quote * n, self.at)), 3)
                self.at += run
                return
            else:
                self.at += 1

    def peek(self) -> str:
        return self.text[self.at : self.at + 1]

    def skip(self, characters: str) -> None:
        while self.at < len(self.text) and self.text[self.at] in characters:
            self.at += 1

    def skip_to(self, characters: str) -> None:
        while self.at < len(self.text) and self.text[self.at] not in characters:
            self.at += 1

    def skip_blank(self) -> None:
        """Pass white space, line ends and comments."""
        self.skip(_SPACE + _LINE_ENDS)
        while self.peek() == "#":
            self.skip_to(_LINE_ENDS)
            self.skip(_SPACE + _LINE_ENDS)

    def skip_comma(self) -> None:
        self.skip_blank()
        if self.peek() == ",":
            self.at += 1
        self.skip_blank()
