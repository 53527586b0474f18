"""Bounds on what a provider may make us keep: the bytes of one event, and of a refusal's body.

Imported with the client only: it needs the client's own HTTP library.
"""

from collections.abc import AsyncIterator
from typing import Final, cast

import httpx

MAX_EVENT: Final = 2 * 1024 * 1024
"""Bytes that one event of a stream may have; the client keeps an event until its end."""

MAX_REFUSAL: Final = 64 * 1024
"""Bytes of a refusal's body that are read."""

_BOUNDARIES: Final = (b"\n\n", b"\r\n\r\n", b"\r\r")
_LONGEST_BOUNDARY: Final = 4


class OversizedAnswerError(Exception):
    """A provider sent more than a client should keep."""


async def bound_response(response: httpx.Response) -> None:
    """Put bounds on a response that has just begun; an event hook of the HTTP client."""
    stream = cast("httpx.AsyncByteStream", response.stream)
    if not response.is_success:
        response.stream = _BoundedBody(stream)
    elif response.headers.get("content-encoding", "identity") != "identity":
        raise OversizedAnswerError("the answer is compressed, though that was not asked for")
    else:
        response.stream = _BoundedEvents(stream)


class _BoundedEvents(httpx.AsyncByteStream):
    """Breaks off when an event does not end."""

    def __init__(self, stream: httpx.AsyncByteStream) -> None:
        self._stream = stream

    async def __aiter__(self) -> AsyncIterator[bytes]:
        tail = b""
        since_boundary = 0
        async for chunk in self._stream:
            seen = tail + chunk
            ends = [place + len(mark) for mark in _BOUNDARIES if (place := seen.rfind(mark)) >= 0]
            since_boundary = len(seen) - max(ends) if ends else since_boundary + len(chunk)
            if since_boundary > MAX_EVENT:
                raise OversizedAnswerError(f"an event of the answer is longer than {MAX_EVENT} bytes")
            tail = seen[1 - _LONGEST_BOUNDARY :]
            yield chunk

    async def aclose(self) -> None:
        await self._stream.aclose()


class _BoundedBody(httpx.AsyncByteStream):
    """Reads no more than the beginning."""

    def __init__(self, stream: httpx.AsyncByteStream) -> None:
        self._stream = stream

    async def __aiter__(self) -> AsyncIterator[bytes]:
        left = MAX_REFUSAL
        async for chunk in self._stream:
            yield chunk[:left]
            left -= len(chunk)
            if left <= 0:
                return

    async def aclose(self) -> None:
        await self._stream.aclose()
