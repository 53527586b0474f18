"""The event stream: everything that happens, from now on or from where a client left off."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import closing
from typing import Final

from anyio.lowlevel import checkpoint
from starlette.requests import Request
from starlette.responses import Response

from fallback_plugin.agent.host import AgentHost
from fallback_plugin.agent.http.calls.call import Call
from fallback_plugin.agent.http.event_stream import STREAM_HEADERS, EventStream
from fallback_plugin.agent.http.frames import Frames
from fallback_plugin.agent.http.refusals import BadRequestError

MOST_LISTENERS: Final = 1000

LARGEST_PIECE: Final = 64 * 1024
"""Bytes from which on events that wait go out in a piece of their own."""


class EventCalls:
    """The calls that stream events."""

    def __init__(self, host: AgentHost) -> None:
        self._host = host
        self._frames = Frames()
        self._global_frames = Frames(str(host.directory))

    @property
    def calls(self) -> Sequence[Call]:
        """Return the calls."""
        return (
            Call(
                "GET",
                "/event",
                self.stream,
                "Listen to everything; Last-Event-ID, or after, goes on where a client left off",
                query={"after": "integer"},
            ),
            Call("GET", "/global/event", self.stream_all, "The same, each event with its project folder"),
        )

    async def stream(self, request: Request) -> Response:
        """Answer ``GET /event``."""
        return self._stream(request, self._frames)

    async def stream_all(self, request: Request) -> Response:
        """Answer ``GET /global/event``; one host serves one folder."""
        return self._stream(request, self._global_frames)

    def _stream(self, request: Request, frames: Frames) -> Response:
        if self._host.bus.listeners >= MOST_LISTENERS:
            raise BadRequestError(f"{MOST_LISTENERS} clients listen already: close some", status=503)
        after = _last_event(request)
        if request.method == "HEAD":
            return Response(headers=STREAM_HEADERS)  # a stream has no end that its client could wait for
        return EventStream(self._listen(after, frames), frames.special("server.heartbeat"))

    async def _listen(self, after: int | None, frames: Frames) -> AsyncGenerator[bytes]:
        with closing(self._host.bus.subscribe(after=after)) as events:
            yield frames.connected(events.last)
            async for event in events:
                piece = bytearray(frames.of(event))
                await (
                    checkpoint()
                )  # a piece costs more than what is in it: what comes at once goes out at once
                while len(piece) < LARGEST_PIECE and (following := events.ready()) is not None:
                    piece += frames.of(following)
                yield bytes(piece)


def _last_event(request: Request) -> int | None:
    """Return the last event a client has: a browser says it in its own header, others in the query."""
    text = request.headers.get("last-event-id") or request.query_params.get("after")
    if text is None:
        return None
    if not (text.isascii() and text.isdecimal() and len(text) < 19):  # noqa: PLR2004 -- a row's number fits into 63 bits
        raise BadRequestError(f"{text[:40]!r} is not the id of an event", kind="Query")
    return int(text)
