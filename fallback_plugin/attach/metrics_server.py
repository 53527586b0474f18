"""The figures over HTTP, for this machine only."""

from collections.abc import Callable
from http import HTTPStatus
from typing import Final

import anyio
from anyio.abc import SocketStream

from fallback_plugin.attach.metrics import CONTENT_TYPE

_LARGEST_HEAD: Final = 16 * 1024
_DEADLINE_S: Final = 5.0


async def answer(stream: SocketStream, figures: Callable[[], str]) -> None:
    """Answer one request, ``GET /metrics``, and close."""
    async with stream:
        with anyio.move_on_after(_DEADLINE_S):
            try:
                await stream.send(_response(await _request_line(stream), figures))
            except (anyio.BrokenResourceError, anyio.EndOfStream, anyio.ClosedResourceError):
                return


async def _request_line(stream: SocketStream) -> str:
    head = b""
    while b"\r\n\r\n" not in head and len(head) < _LARGEST_HEAD:
        head += await stream.receive()
    return head.partition(b"\r\n")[0].decode("latin-1")


def _response(request_line: str, figures: Callable[[], str]) -> bytes:
    method, _, rest = request_line.partition(" ")
    path = rest.partition(" ")[0].partition("?")[0]
    if method not in {"GET", "HEAD"}:
        status, body = HTTPStatus.METHOD_NOT_ALLOWED, "only GET\n"
    elif path != "/metrics":
        status, body = HTTPStatus.NOT_FOUND, "only /metrics is here\n"
    else:
        status, body = HTTPStatus.OK, figures()
    kind = CONTENT_TYPE if status is HTTPStatus.OK else "text/plain; charset=utf-8"
    content = body.encode()
    head = (
        f"HTTP/1.1 {status.value} {status.phrase}\r\ncontent-type: {kind}\r\n"
        f"content-length: {len(content)}\r\nconnection: close\r\n\r\n"
    )
    return head.encode() + (b"" if method == "HEAD" else content)
