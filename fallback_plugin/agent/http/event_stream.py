"""Server-sent events to one client, for as long as it listens."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import aclosing
from typing import Final, TypeAlias

import anyio
from anyio.lowlevel import checkpoint
from starlette.responses import Response

from fallback_plugin.agent.http.guard import Message, Receive, Send
from fallback_plugin.agent.http.patience import DRAIN

HEARTBEAT_S: Final = 10.0
"""As OpenCode's: a stream that is silent for much longer is dead."""

Drain: TypeAlias = Callable[[], Awaitable[None]]

STREAM_HEADERS: Final[Mapping[str, str]] = {
    "content-type": "text/event-stream",
    "cache-control": "no-cache, no-transform",
    "x-accel-buffering": "no",
}


class EventStream(Response):
    """An ASGI response that sends frames as they come, and a heartbeat every so often.

    ``frames`` yields whole frames (``data: …`` and an empty line), several in one piece where they wait, and
    lets others have their turn between two pieces: to send returns at once when nobody listens any more. It
    is asked for the next piece when the last one is on the socket. The response ends when ``frames`` does or
    when the client goes.
    """

    def __init__(
        self, frames: AsyncGenerator[bytes], heartbeat: bytes, *, heartbeat_s: float = HEARTBEAT_S
    ) -> None:
        super().__init__()
        self._frames = frames
        self._heartbeat = heartbeat
        self._heartbeat_s = heartbeat_s

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Send until there is no more to send, or nobody to send it to."""
        drain: Drain = scope.get("state", {}).get(DRAIN, checkpoint)
        headers = [(name.encode(), value.encode()) for name, value in STREAM_HEADERS.items()]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        async with anyio.create_task_group() as beside:

            async def until_gone() -> None:
                while (await receive())["type"] != "http.disconnect":
                    pass
                beside.cancel_scope.cancel()

            async def beat() -> None:
                while True:
                    await anyio.sleep(self._heartbeat_s)
                    await send(_piece(self._heartbeat))

            beside.start_soon(until_gone)
            beside.start_soon(beat)
            async with aclosing(self._frames) as pieces:
                async for frames in pieces:
                    await send(_piece(frames))
                    await drain()
            await send(_piece(b"", more=False))
            beside.cancel_scope.cancel()


def _piece(body: bytes, *, more: bool = True) -> Message:
    return {"type": "http.response.body", "body": body, "more_body": more}
