"""The events of one project folder, or of all, as OpenCode streams them over HTTP."""

import json
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from typing import Final

import httpx2

from fallback_plugin.errors import HostCallError, HostCallTimeoutError
from fallback_plugin.opencode.answers import FIRST_FAILURE, failure_text, refusal_text
from fallback_plugin.wire.fields import Json

LARGEST_EVENT: Final = 32 * 1024 * 1024
"""Bytes of the largest event, as on the bridge. The limit of httpx2 itself is 1 MiB, less than an image."""

SILENCE_S: Final = 25.0
"""A stream silent for so long is dead: two heartbeats are missing, and 5 s have passed besides.

OpenCode 1.18.33 sends one every 10.0 s; with four other processes at work on two cores, after 11.1 s at most.
"""

_CONNECT_S: Final = 5.0
_HEARTBEAT: Final = "server.heartbeat"


@asynccontextmanager
async def open_events(
    http: httpx2.AsyncClient,
    path: str = "/event",
    *,
    headers: Mapping[str, str] | None = None,
    heartbeats: bool = False,
    silence_s: float = SILENCE_S,
) -> AsyncIterator[AsyncIterator[Json]]:
    """Listen to ``path``; inside the block the host is sending, and nothing is missed.

    ``headers`` name the folder. Yields an iterator over raw events ``{id, type, properties}``, the first of
    them ``server.connected``. Lines that are not such an object are left out, and so are heartbeats unless
    asked for. Events that came before are never sent again: read the status of the sessions anew after each
    connection.

    Raises:
        HostCallError: if the host refuses, or (from the iterator) when the stream ends.
        HostCallTimeoutError: if nothing came for ``silence_s`` seconds.
    """
    timeout = httpx2.Timeout(silence_s, connect=_CONNECT_S)
    async with AsyncExitStack() as stack:
        try:
            source = await stack.enter_async_context(
                http.sse(path, headers=headers, timeout=timeout, max_event_size=LARGEST_EVENT)
            )
        except httpx2.TimeoutException:
            raise HostCallTimeoutError(f"GET {path}: no answer from OpenCode") from None
        except httpx2.HTTPError as error:
            raise HostCallError(f"GET {path}: {http.base_url}: {failure_text(error)}") from error
        status = source.response.status_code
        if status >= FIRST_FAILURE:
            raise HostCallError(f"GET {path}: {refusal_text(status, None)} (HTTP {status})", status=status)
        events = _read(source, path, silence_s, heartbeats=heartbeats)
        yield await stack.enter_async_context(aclosing(events))


async def _read(
    source: httpx2.EventSource, path: str, silence_s: float, *, heartbeats: bool
) -> AsyncGenerator[Json, None]:
    try:
        async for event in source:
            raw = _object(event.data)
            if raw is not None and (heartbeats or raw.get("type") != _HEARTBEAT):
                yield raw
    except httpx2.TimeoutException:
        raise HostCallTimeoutError(f"GET {path}: nothing came for {silence_s:g} s") from None
    except httpx2.HTTPError as error:
        raise HostCallError(f"GET {path}: the stream broke off: {failure_text(error)}") from error
    raise HostCallError(f"GET {path}: the host ended the stream")


def _object(data: str) -> Json | None:
    try:
        raw = json.loads(data)
    except (ValueError, RecursionError):
        return None
    return raw if isinstance(raw, dict) else None
