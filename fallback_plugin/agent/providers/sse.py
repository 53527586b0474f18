"""Decoding ``text/event-stream`` bodies: a pure decoder of bytes into events.

It follows the WHATWG standard (https://html.spec.whatwg.org/multipage/server-sent-events.html): a byte order
mark and events without data are ignored. Where the standard would lose an answer it is more lenient: damaged
UTF-8 is replaced, the last event need not end with an empty line, and a body that is JSON is one event.
"""

import codecs
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

_LINE_END: Final = re.compile(r"\r\n|\n|\r")


@dataclass(frozen=True, slots=True)
class ServerSentEvent:
    """One event; ``name`` is empty unless the server gave one. ``is_whole``: it is the whole body."""

    name: str
    data: str
    is_whole: bool = False


class EventStreamDecoder:
    """Decodes one body, as it comes in."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8-sig")(errors="replace")
        self._begun = False
        self._after_return = False
        self._line: list[str] = []
        self._name = ""
        self._data: list[str] = []
        self._is_json = False

    def feed(self, chunk: bytes) -> Iterator[ServerSentEvent]:
        """Yield the events that a piece of the body completes."""
        text = self._decoder.decode(chunk)
        if not self._begun:
            text = text.lstrip()
            self._is_json = text.startswith(("{", "["))
            self._begun = bool(text)
        if self._is_json:
            self._line.append(text)
        elif text:
            yield from self._take(text)

    def end(self) -> Iterator[ServerSentEvent]:
        """Yield what the end of the body completes."""
        if self._is_json:
            yield ServerSentEvent("", "".join(self._line), is_whole=True)
            return
        self._field("".join(self._line))
        yield from self._dispatch()

    def _take(self, text: str) -> Iterator[ServerSentEvent]:
        if self._after_return:
            text = text.removeprefix("\n")  # the other half of a line end that was cut in two
        self._after_return = text.endswith("\r")
        rest, *following = _LINE_END.split(text)
        self._line.append(rest)
        for following_line in following:
            line = "".join(self._line)
            self._line = [following_line]
            if line:
                self._field(line)
            else:
                yield from self._dispatch()

    def _field(self, line: str) -> None:
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if name == "data":
            self._data.append(value)
        elif name == "event":
            self._name = value

    def _dispatch(self) -> Iterator[ServerSentEvent]:
        name, data = self._name, "\n".join(self._data)
        self._name, self._data = "", []
        if data.strip():
            yield ServerSentEvent(name, data)
