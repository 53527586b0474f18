"""The little of an OpenCode server that ``attach`` needs: it records calls and sends what a test says."""

import asyncio
import json
from base64 import b64encode
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from http import HTTPStatus
from typing import Any, Final, NamedTuple, Self
from urllib.parse import unquote

VERSION: Final = "1.18.33"


class Call(NamedTuple):
    """A request that changes something."""

    path: str
    directory: str
    body: Any


class FakeOpenCode:
    """Listen on a port of its own, which stays the same over `close` and `open`."""

    def __init__(
        self, *, directory: str = "/project", password: str | None = None, version: str = VERSION
    ) -> None:
        self.version = version
        self.directory: Final = directory
        self.password = password
        self.statuses: dict[str, Any] = {}
        self.stopped_by_others: set[str] = set()  # sessions whose run another abort is ending already
        self.ending: dict[str, int] = {}  # how many changes a session whose run is ending still refuses
        self.histories: dict[str, list[Any]] = {}
        self.refused: dict[str, int] = {}
        self.calls: list[Call] = []
        self.requests: list[str] = []
        self.answering = asyncio.Event()  # cleared, calls wait for their answer
        self.answering.set()
        self._port = 0
        self._streams: list[asyncio.StreamWriter] = []
        self._changed = asyncio.Condition()
        self._connections: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    async def open(self) -> None:
        """Begin to listen."""
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", self._port)
        self._port = self._server.sockets[0].getsockname()[1]

    async def close(self) -> None:
        """Drop every connection and listen no more."""
        self._server.close()
        for task in list(self._connections):
            task.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)
        self._streams.clear()

    async def send(self, *events: Mapping[str, Any], heard: int = 1) -> None:
        """Send events to everyone who listens, once ``heard`` do."""
        await self.send_lines([json.dumps(event) for event in events], heard=heard)

    async def send_lines(self, lines: Sequence[str], *, heard: int = 1) -> None:
        """Send events that are JSON already."""
        await self.wait_for(lambda: len(self._streams) >= heard)
        data = "".join(f"data: {line}\n\n" for line in lines)
        for stream in self._streams:
            stream.write(data.encode())
            await stream.drain()

    async def wait_for(self, condition: Callable[[], bool], *, within_s: float = 20) -> None:
        """Wait until a condition holds; it is looked at with each request and stream."""
        async with self._changed:
            await asyncio.wait_for(self._changed.wait_for(condition), within_s)

    def called(self, words: str) -> list[Call]:
        """Return the calls whose path holds these words."""
        return [call for call in self.calls if words in call.path]

    async def wait_for_call(self, words: str, *, count: int = 1, within_s: float = 20) -> Call:
        """Wait for a call and return it."""
        await self.wait_for(lambda: len(self.called(words)) >= count, within_s=within_s)
        return self.called(words)[count - 1]

    async def drop(self) -> None:
        """Break every stream of events off, and go on listening."""
        for stream in list(self._streams):
            stream.close()

    def toasts(self) -> list[str]:
        """Return the titles and texts of what was shown."""
        return [f"{call.body['title']}: {call.body['message']}" for call in self.called("/tui/show-toast")]

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        try:
            with suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
                await self._serve(reader, writer)
        finally:
            self._connections.discard(task)
            if writer in self._streams:
                self._streams.remove(writer)
            writer.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        lines = head.split("\r\n")
        method, path, _ = lines[0].split(" ")
        headers = {
            name.strip().lower(): value.strip()
            for name, _, value in (line.partition(":") for line in lines[1:])
        }
        raw = await reader.readexactly(int(headers.get("content-length", 0)))
        body = json.loads(raw) if raw else None
        if not self._lets_in(headers):
            writer.write(_response(HTTPStatus.UNAUTHORIZED, None))
        elif path in {"/event", "/global/event"}:
            await self._stream(reader, writer)
            return
        else:
            directory = unquote(headers.get("x-opencode-directory", ""))
            if method != "GET":
                self.calls.append(Call(path, directory, body))
                await self._note(path)
                await self.answering.wait()
            if path.endswith("/abort"):
                await self._abort(path.split("/")[2])
            status = self._status_of(path)
            writer.write(_response(HTTPStatus(status), self._answer(path, directory)))
        if method == "GET":
            await self._note(path)
        await writer.drain()

    async def _abort(self, session_id: str) -> None:
        """End a run before the answer, as the host does unless somebody was first."""
        if session_id not in self.stopped_by_others:
            self.statuses.pop(session_id, None)
            await self.send(*ended(session_id))

    def _status_of(self, path: str) -> int:
        """Return the HTTP status of a call's answer."""
        session_id = path.removeprefix("/session/").removesuffix("/revert")
        if path.endswith("/revert") and self.ending.get(session_id, 0) > 0:
            self.ending[session_id] -= 1
            return HTTPStatus.CONFLICT
        return self.refused.get(path, HTTPStatus.OK)

    async def _stream(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n")
        connected = {"type": "server.connected", "properties": {}}
        writer.write(f"data: {json.dumps(connected)}\n\n".encode())
        self._streams.append(writer)
        await self._note("/event")
        while await reader.read(1024):
            pass

    def _lets_in(self, headers: Mapping[str, str]) -> bool:
        if self.password is None:
            return True
        word = b64encode(f"opencode:{self.password}".encode()).decode()
        return headers.get("authorization") == f"Basic {word}"

    def _answer(self, path: str, directory: str) -> object:
        match path.strip("/").split("/"):
            case ["global", "health"]:
                return {"healthy": True, "version": self.version}
            case ["path"]:
                return {"directory": directory or self.directory, "worktree": "/"}
            case ["session", "status"]:
                return self.statuses
            case ["session", session_id, "message" | "message?limit=10"]:
                return self.histories.get(session_id, [])
            case ["session", session_id]:
                return {"id": session_id}
            case ["config", "providers"]:
                return {"providers": [], "default": {}}
            case ["config"]:
                return {}
        return True

    async def _note(self, path: str) -> None:
        async with self._changed:
            self.requests.append(path)
            self._changed.notify_all()


def _response(status: HTTPStatus, body: object) -> bytes:
    content = b"" if body is None else json.dumps(body).encode()
    length = f"content-length: {len(content)}"
    head = f"HTTP/1.1 {status.value} {status.phrase}\r\n{length}\r\nconnection: close\r\n\r\n"
    return head.encode() + content


def user(message_id: str, session_id: str, model: str) -> dict[str, Any]:
    """Write a user's message."""
    provider, _, name = model.partition("/")
    return {
        "id": message_id,
        "sessionID": session_id,
        "role": "user",
        "time": {"created": 1},
        "agent": "build",
        "model": {"providerID": provider, "modelID": name},
    }


def answer(message_id: str, session_id: str, parent_id: str, model: str, **more: object) -> dict[str, Any]:
    """Write an assistant's message, by default one that has just begun."""
    provider, _, name = model.partition("/")
    return {
        "id": message_id,
        "sessionID": session_id,
        "role": "assistant",
        "parentID": parent_id,
        "time": {"created": 2},
        "agent": "build",
        "providerID": provider,
        "modelID": name,
        **more,
    }


def event(kind: str, **properties: object) -> dict[str, Any]:
    """Write an event."""
    return {"id": "evt_1", "type": kind, "properties": properties}


def updated(info: Mapping[str, Any]) -> dict[str, Any]:
    """Write the event of a message."""
    return event("message.updated", sessionID=info["sessionID"], info=info)


def status_is(session_id: str, word: str, **more: object) -> dict[str, Any]:
    """Write the event of a session's status."""
    return event("session.status", sessionID=session_id, status={"type": word, **more})


RETRY: Final[Mapping[str, Any]] = {
    "attempt": 1,
    "message": "Rate limit reached for requests",
    "next": 4_000_000_000_000,
}


def failing_turn(session_id: str, model: str = "main/m", number: int = 1) -> list[dict[str, Any]]:
    """Write a turn whose model is rate limited, up to the host's wait."""
    asked = user(f"msg_{number}1", session_id, model)
    return [
        updated(asked),
        status_is(session_id, "busy"),
        updated(answer(f"msg_{number}2", session_id, asked["id"], model)),
        status_is(session_id, "retry", **RETRY),
    ]


def refused_turn(session_id: str, model: str = "main/m", number: int = 1) -> list[dict[str, Any]]:
    """Write a turn whose model rejects the key, up to its error; its run has yet to end."""
    asked = user(f"msg_{number}1", session_id, model)
    error = {"name": "APIError", "data": {"message": "Wrong key", "statusCode": 401, "isRetryable": False}}
    return [
        updated(asked),
        status_is(session_id, "busy"),
        updated(answer(f"msg_{number}2", session_id, asked["id"], model)),
        event("session.error", sessionID=session_id, error=error),
        *ended(session_id),
    ]


def ended(session_id: str) -> list[dict[str, Any]]:
    """Write a run's end."""
    return [status_is(session_id, "idle"), event("session.idle", sessionID=session_id)]
