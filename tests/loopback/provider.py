"""An OpenAI-compatible provider on loopback that does what a script says and keeps what it was asked."""

import asyncio
import json
import socket
import struct
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, Final, Self

from tests.loopback.reply import Answer, Close, Data, Gate, Head, Pause, Reply, Step, status, stream

SMALL_MODEL: Final = "small"
"""Answers the host's tool-less requests (session titles), so that they never count for another model."""

SMALL_ANSWER: Final = "A title"

_HEADERS_LIMIT: Final = 1 << 16
_LAST_CHUNK: Final = b"0\r\n\r\n"
_ABORT_ON_CLOSE: Final = struct.pack("ii", 1, 0)


@dataclass(slots=True)
class Request:
    """One request, as it came and how it ended. Times are those of `time.monotonic`.

    ``session`` is the host's own id of the session. ``last_byte_at`` is None until the reply ended;
    ``disconnected_at`` is set when the client went away before that.
    """

    model: str
    arrived_at: float
    headers: Mapping[str, str]
    body: Mapping[str, Any]
    last_byte_at: float | None = None
    disconnected_at: float | None = None
    roles: tuple[str, ...] = field(init=False)
    session: str | None = field(init=False)

    def __post_init__(self) -> None:
        """Read what most tests look at."""
        self.roles = tuple(message["role"] for message in self.body.get("messages", ()))
        self.session = self.headers.get("x-session-id")


class ScriptedProvider:
    """Serve model requests in a thread of its own: ``/v1/chat/completions``, or in what `dialects` speaks.

    ``scripts`` maps a model's name to its replies, used up in order; the last one repeats. A model without
    a script is answered 404.
    """

    def __init__(self, scripts: Mapping[str, Sequence[Reply]] | None = None) -> None:
        self._scripts: dict[str, list[Reply]] = {SMALL_MODEL: [stream(SMALL_ANSWER)]}
        for model, replies in (scripts or {}).items():
            self.script(model, *replies)
        self._requests: list[Request] = []
        self._changed = threading.Condition()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="scripted-provider", daemon=True)
        self._listening = socket.create_server(("127.0.0.1", 0))
        self._stop = asyncio.Event()

    def __enter__(self) -> Self:
        """Start answering; the port is open since construction."""
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Drop every connection and end the thread."""
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()

    @property
    def url(self) -> str:
        """What an OpenAI client calls its base URL."""
        return f"http://127.0.0.1:{self._listening_port}/v1"

    @property
    def _listening_port(self) -> int:
        port: int = self._listening.getsockname()[1]
        return port

    def script(self, model: str, *replies: Reply) -> None:
        """Set what a model answers from now on."""
        if not replies:
            raise ValueError(f"{model} needs at least one reply")
        self._scripts[model] = list(replies)

    def requests(self, model: str | None = None, *, session: str | None = None) -> list[Request]:
        """Return the requests so far, oldest first: all, those to a model, those of a session."""
        with self._changed:
            return [
                request
                for request in self._requests
                if model in (None, request.model) and session in (None, request.session)
            ]

    def wait_for(self, condition: Callable[[], bool], *, timeout_s: float = 60.0) -> None:
        """Wait until ``condition`` holds; it is looked at whenever a request begins, ends or breaks off."""
        with self._changed:
            if not self._changed.wait_for(condition, timeout_s):
                seen = [(request.model, request.session) for request in self._requests]
                raise AssertionError(f"not within {timeout_s} s; the provider was asked {seen}")

    def is_quiet(self, session: str, *, after: int, window_s: float) -> bool:
        """Watch for ``window_s`` whether a session makes no request beyond its first ``after`` ones."""
        with self._changed:
            return not self._changed.wait_for(lambda: len(self.requests(session=session)) > after, window_s)

    def _run(self) -> None:
        try:
            self._loop.run_until_complete(self._serve())
        finally:
            self._loop.close()

    async def _serve(self) -> None:
        connections: set[asyncio.Task[None]] = set()

        async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.current_task()
            assert task is not None
            connections.add(task)
            try:
                # A client that resets the connection is a client that went away.
                with suppress(ConnectionError, asyncio.IncompleteReadError):
                    await self._answer(reader, writer)
            finally:
                writer.close()
                with suppress(ConnectionError):
                    await writer.wait_closed()
                connections.discard(task)

        server = await asyncio.start_server(connected, sock=self._listening, limit=_HEADERS_LIMIT)
        await self._stop.wait()
        server.close()
        open_connections = list(connections)
        for task in open_connections:
            task.cancel()
        await asyncio.gather(*open_connections, return_exceptions=True)

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        request = await _read_request(reader)
        with self._changed:
            self._requests.append(request)
            reply = self._next_reply(request.model)
            self._changed.notify_all()
        client_gone = asyncio.ensure_future(_end_of(reader))
        reset = False
        try:
            await self._carry_out(reply, writer, client_gone)
        except ConnectionError:
            # Seen while writing, a turn of the loop before ``client_gone`` sees it.
            reset = True
        finally:
            with self._changed:
                now = time.monotonic()
                if reset or client_gone.done():
                    request.disconnected_at = now
                else:
                    request.last_byte_at = now
                self._changed.notify_all()
            client_gone.cancel()

    def _next_reply(self, model: str) -> Reply:
        replies = self._scripts.get(model)
        if replies is None:
            return status(HTTPStatus.NOT_FOUND, f"No script for the model {model!r}.")
        return replies.pop(0) if len(replies) > 1 else replies[0]

    @staticmethod
    async def _carry_out(
        reply: Reply, writer: asyncio.StreamWriter, client_gone: asyncio.Future[None]
    ) -> None:
        chunked = any(isinstance(step, Head) and step.chunked for step in reply)
        for step in reply:
            if isinstance(step, Gate):
                # Shielded: a gate stays a gate for other requests when this one is given up.
                opened = asyncio.shield(asyncio.wrap_future(step.opened))
                await asyncio.wait({opened, client_gone}, return_when=asyncio.FIRST_COMPLETED)
                opened.cancel()
            elif isinstance(step, Pause):
                await asyncio.wait({client_gone}, timeout=step.seconds)
            elif isinstance(step, Close):
                if step.reset:
                    writer.get_extra_info("socket").setsockopt(
                        socket.SOL_SOCKET, socket.SO_LINGER, _ABORT_ON_CLOSE
                    )
                    writer.transport.abort()
                elif chunked and not step.early:
                    writer.write(_LAST_CHUNK)
                    await writer.drain()
            else:
                written = _bytes_of(step)
                writer.write(_chunk(written) if chunked and isinstance(step, Data) else written)
                await writer.drain()
            if client_gone.done():
                return


def _bytes_of(step: Step) -> bytes:
    match step:
        case Data(text):
            return f"data: {text}\n\n".encode()
        case Answer(code, body, headers):
            # Without a length, since Bun 1.3 keeps even a closing connection for its next request.
            return _head(code, {"content-type": "application/json", **headers}) + body.encode()
        case Head(chunked):
            framing = {"transfer-encoding": "chunked"} if chunked else {}
            return _head(HTTPStatus.OK, {"content-type": "text/event-stream", **framing})
    raise TypeError(f"{step!r} has no bytes")


def _chunk(written: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(written), written)


def _head(code: int, fields: Mapping[str, str]) -> bytes:
    # One request a connection keeps a reset or a cut from touching another request.
    lines = [f"HTTP/1.1 {code} Scripted", "connection: close", *(f"{k}: {v}" for k, v in fields.items())]
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


async def _read_request(reader: asyncio.StreamReader) -> Request:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    arrived_at = time.monotonic()
    fields = (line.partition(":") for line in head.split("\r\n")[1:] if line)
    headers = {name.strip().lower(): value.strip() for name, _, value in fields}
    body = json.loads(await reader.readexactly(int(headers["content-length"])))
    # Google's requests name their model in the path: /v1/models/<model>:streamGenerateContent
    model = body.get("model") or head.partition("/models/")[2].partition(":")[0]
    return Request(model, arrived_at, headers, body)


async def _end_of(reader: asyncio.StreamReader) -> None:
    with suppress(ConnectionError):
        while await reader.read(1024):
            pass
