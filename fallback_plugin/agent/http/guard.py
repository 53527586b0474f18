"""Who may call: everything that is refused before a call is looked at."""

import secrets
from base64 import b64decode
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Any, Final, TypeAlias
from urllib.parse import parse_qs, urlsplit

import anyio

Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]
App: TypeAlias = Callable[[Message, Receive, Send], Awaitable[None]]

LARGEST_BODY: Final = 32 * 1024 * 1024
"""Bytes of a request's body: a prompt with some images."""

BODY_WITHIN_S: Final = 30.0
"""How long a client may take to send its body."""

_EMPTY: Final[Message] = {"type": "http.request", "body": b"", "more_body": False}


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """What is let through.

    Attributes:
        password: asked for where it is set, with HTTP Basic or as ``auth_token``, the same in the query.
        user: the name it goes with.
        host_names: names this server is called by, beside ``localhost`` and addresses: a page of another
            site that had its own name point here would be turned away.
    """

    password: str | None = None
    user: str = "opencode"
    host_names: frozenset[str] = frozenset()
    largest_body: int = LARGEST_BODY
    body_within_s: float = BODY_WITHIN_S


class Guard:
    """Let a request through to ``app`` if it may call, and hand its body over whole."""

    def __init__(self, app: App, rules: Rules) -> None:
        self._app = app
        self._rules = rules

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Serve one connection of uvicorn's."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = {
            name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]
        }
        if not self._is_addressed_here(headers.get("host", "")):
            await _refuse(send, 421, "this server is not called by that name")
        elif not _is_same_origin(headers.get("origin"), headers.get("host", "")):
            await _refuse(send, 403, "pages of other sites may not call this server")
        elif not self._is_known(_credentials(headers.get("authorization"), scope["query_string"])):
            await _refuse(send, 401, "", {"www-authenticate": 'Basic realm="Secure Area"'})
        else:
            await self._serve(scope, receive, send, _length(headers.get("content-length")))

    async def _serve(self, scope: Message, receive: Receive, send: Send, length: int | None) -> None:
        if length is not None and length > self._rules.largest_body:
            await _refuse(send, 413, f"the body is longer than {self._rules.largest_body:,} bytes")
            return
        body: bytes | None = None
        with anyio.move_on_after(self._rules.body_within_s):
            body = await self._body(receive)
        if body is None:
            await _refuse(send, 408, f"the body did not arrive within {self._rules.body_within_s:g} s")
        elif len(body) > self._rules.largest_body:
            await _refuse(send, 413, f"the body is longer than {self._rules.largest_body:,} bytes")
        else:
            await self._app(scope, _handed_over(body, receive), send)

    async def _body(self, receive: Receive) -> bytes:
        """Read the body, at most one piece beyond what is allowed."""
        chunks, size = [], 0
        while True:
            message = await receive()
            chunk = message.get("body", b"")
            chunks.append(chunk)
            size += len(chunk)
            if not message.get("more_body", False) or size > self._rules.largest_body:
                return b"".join(chunks)

    def _is_addressed_here(self, host: str) -> bool:
        name = _host_name(host)
        return name == "localhost" or name in self._rules.host_names or _is_address(name)

    def _is_known(self, credentials: bytes) -> bool:
        if self._rules.password is None:
            return True
        return secrets.compare_digest(credentials, f"{self._rules.user}:{self._rules.password}".encode())


def _handed_over(body: bytes, receive: Receive) -> Receive:
    """Hand the body over in one piece, then whatever the connection says: that it was closed."""
    waiting: list[Message] = [{**_EMPTY, "body": body}]

    async def next_message() -> Message:
        return waiting.pop() if waiting else await receive()

    return next_message


def _host_name(host: str) -> str:
    """Return the name in a Host header, without the port: ``localhost:8000``, ``[::1]:8000``."""
    try:
        return (urlsplit(f"//{host}").hostname or "").lower()
    except ValueError:
        return ""


def _is_address(name: str) -> bool:
    """Tell whether a name is an address: no name server can make it point elsewhere."""
    try:
        ip_address(name)
    except ValueError:
        return False
    return True


def _is_same_origin(origin: str | None, host: str) -> bool:
    """Tell whether a page may call: its own, and whatever is no page."""
    if origin is None:
        return True
    try:
        return urlsplit(origin).netloc.lower() == host.lower()
    except ValueError:
        return False


def _credentials(authorization: str | None, query: bytes) -> bytes:
    """Return ``user:password``: of HTTP Basic or, without any header, of the query's ``auth_token``."""
    if authorization is None:
        given = parse_qs(query.decode("latin-1")).get("auth_token", [""])[0]
        scheme, encoded = "basic", given.replace(" ", "+")  # what base64 spells +, a query spells otherwise
    else:
        scheme, _, encoded = authorization.partition(" ")
    try:
        return b64decode(encoded, validate=True) if scheme.lower() == "basic" else b""
    except ValueError:
        return b""


def _length(text: str | None) -> int | None:
    return int(text) if text is not None and text.isdecimal() else None


async def _refuse(
    send: Send, status: int, text: str, headers: Iterable[tuple[str, str]] | dict[str, str] = ()
) -> None:
    """Answer and close: what the client still sends is not waited for."""
    own = {"content-type": "text/plain; charset=utf-8", "connection": "close", **dict(headers)}
    raw = [(name.encode(), value.encode()) for name, value in own.items()]
    await send({"type": "http.response.start", "status": status, "headers": raw})
    await send({"type": "http.response.body", "body": text.encode()})
