"""Stops of a user in the moment of a switch, many sessions side by side, and what was asked after each."""

import asyncio
import json
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

import httpx2

from tests.loopback.event_log import Raw, folder_header, session_of
from tests.loopback.provider import ScriptedProvider

GRACE_S: Final = 0.010
"""How long after a stop was answered a request that was on its way may still arrive."""
SIGN_LIMIT_S: Final = 60.0
WATCH_S: Final = 2.0
"""How long a session is watched after its stop; requests were seen up to 1.5 s after one."""

Sign: TypeAlias = Literal["answered", "shown", "idle", "told"]
"""What a delay counts from: the provider's last byte, the failure's first sign in the host's events, the end
of its run, our toast."""


@dataclass(frozen=True, slots=True)
class Stop:
    """One stop to try: ``delay_s`` after a ``sign`` of a failure of ``model``, as ``provider/model``.

    ``directory`` is the project folder, None for the host's own. Without a ``title`` the host makes one up in
    the session's first run, beside the turn.
    """

    model: str
    delay_s: float
    directory: Path | None = None
    sign: Sign = "shown"
    agent: str = "build"
    title: str | None = None


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a stop.

    Attributes:
        stop: what was tried.
        answered_at: when the host answered it, on the monotonic clock.
        late_s: when each model was asked after that, in seconds after the answer.
        said: the text that models other than the failing one showed in the session after the answer.
        seen: what the host published of the session, with the seconds after the answer.
    """

    stop: Stop
    answered_at: float
    late_s: tuple[float, ...]
    said: str
    seen: tuple[tuple[float, str], ...]

    @property
    def is_kept(self) -> bool:
        """Whether the promise was kept: no request later than the grace, and not a word after the stop."""
        return not self.said and all(late <= GRACE_S for late in self.late_s)


@dataclass(slots=True)
class _Watched:
    """What is known of a session while its stop is tried."""

    stop: Stop
    sign: asyncio.Event = field(default_factory=asyncio.Event)
    events: list[tuple[float, Raw]] = field(default_factory=list)


class StopTrial:
    """Tries stops on a server with the plugin; the server's models are those of ``provider``."""

    def __init__(self, url: str, provider: ScriptedProvider) -> None:
        self._url = url
        self._provider = provider
        self._watched: dict[str, _Watched] = {}
        self._listening: set[Path | None] = set()

    def run(self, stops: Sequence[Stop], *, side_by_side: int) -> list[Outcome]:
        """Try all stops, so many at a time; return what became of each."""
        return asyncio.run(self._run(stops, side_by_side))

    async def _run(self, stops: Sequence[Stop], side_by_side: int) -> list[Outcome]:
        waiting = list(reversed(stops))
        outcomes: list[Outcome] = []
        async with AsyncExitStack() as stack:
            limits = httpx2.Limits(max_connections=None, max_keepalive_connections=None)
            client = await stack.enter_async_context(
                httpx2.AsyncClient(base_url=self._url, timeout=30.0, limits=limits)
            )
            listeners = await stack.enter_async_context(asyncio.TaskGroup())

            async def listen_to(directory: Path | None) -> None:
                if directory not in self._listening:
                    self._listening.add(directory)
                    connected = asyncio.Event()
                    tasks.append(listeners.create_task(self._listen(client, directory, connected)))
                    await connected.wait()

            async def work() -> None:
                while waiting:
                    stop = waiting.pop()
                    await listen_to(stop.directory)
                    outcomes.append(await self._try(client, stop))

            tasks: list[asyncio.Task[None]] = []
            async with asyncio.TaskGroup() as workers:
                for _ in range(side_by_side):
                    workers.create_task(work())
            for task in tasks:
                task.cancel()
        return outcomes

    async def _try(self, client: httpx2.AsyncClient, stop: Stop) -> Outcome:
        folder = folder_header(stop.directory)
        titled = {"title": stop.title} if stop.title else {}
        session = (await _post(client, "/session", titled, folder))["id"]
        watched = self._watched[session] = _Watched(stop)
        provider, _, model = stop.model.partition("/")
        prompt = {
            "agent": stop.agent,
            "model": {"providerID": provider, "modelID": model},
            "parts": [{"type": "text", "text": "Who answers?"}],
        }
        await _post(client, f"/session/{session}/prompt_async", prompt, folder)
        async with asyncio.timeout(SIGN_LIMIT_S):
            if stop.sign == "answered":
                await asyncio.to_thread(self._provider.wait_for, lambda: self._has_answered(session, model))
            else:
                await watched.sign.wait()
        await asyncio.sleep(stop.delay_s)
        await _post(client, f"/session/{session}/abort", None, folder)
        answered_at = time.monotonic()
        await asyncio.sleep(WATCH_S)
        requests = self._provider.requests(session=session)
        late = tuple(
            request.arrived_at - answered_at for request in requests if request.arrived_at > answered_at
        )
        del self._watched[session]
        return Outcome(
            stop,
            answered_at,
            late,
            _said_after(watched.events, answered_at, model),
            tuple((at - answered_at, _in_short(event)) for at, event in watched.events),
        )

    def _has_answered(self, session: str, model: str) -> bool:
        requests = self._provider.requests(model, session=session)
        return any(request.last_byte_at or request.disconnected_at for request in requests)

    async def _listen(
        self, client: httpx2.AsyncClient, directory: Path | None, connected: asyncio.Event
    ) -> None:
        headers = folder_header(directory)
        async with client.stream("GET", "/event", headers=headers, timeout=None) as response:
            async for line in response.aiter_lines():
                connected.set()
                if line.startswith("data:"):
                    self._take(_json(line.removeprefix("data:")))

    def _take(self, event: Raw) -> None:
        if event["type"] == "tui.toast.show":
            said = event["properties"]["message"]
            for watched in self._watched.values():
                if watched.stop.sign == "told" and watched.stop.model in said:
                    watched.sign.set()
        of = self._watched.get(session_of(event) or "")
        if of is None:
            return
        of.events.append((time.monotonic(), event))
        if _is_sign(event, of.stop.sign):
            of.sign.set()


def _is_sign(event: Raw, sign: Sign) -> bool:
    if sign == "idle":
        return bool(event["type"] == "session.idle")
    status = event["properties"].get("status")
    retries = isinstance(status, dict) and status.get("type") == "retry"
    return sign == "shown" and (retries or event["type"] == "session.error")


def summary(outcomes: Sequence[Outcome]) -> str:
    """Write how many stops were kept, and each that was not."""
    broken = [outcome for outcome in outcomes if not outcome.is_kept]
    crossed = Counter(bool(outcome.late_s) for outcome in outcomes)[True]
    lines = [f"{len(broken)} of {len(outcomes)} stops broken; {crossed} crossed a request"]
    for outcome in broken:
        late = ", ".join(f"{1000 * late:.0f} ms" for late in outcome.late_s)
        lines.append(
            f"{outcome.stop.model}, {1000 * outcome.stop.delay_s:.0f} ms after {outcome.stop.sign!r}:"
            f" asked {late or 'nobody'} after the stop; said {outcome.said!r}"
        )
        lines += [f"    {1000 * at:7.0f} ms {event}" for at, event in outcome.seen]
    return "\n".join(lines)


def _said_after(events: Sequence[tuple[float, Raw]], answered_at: float, failing: str) -> str:
    """Return the text that arrived after a stop in answers of other models than the failing one."""
    of_others = {
        event["properties"]["info"]["id"]
        for _, event in events
        if event["type"] == "message.updated"
        and event["properties"]["info"]["role"] == "assistant"
        and event["properties"]["info"]["modelID"] != failing
    }
    return "".join(
        event["properties"].get("delta") or ""
        for at, event in events
        if at > answered_at + GRACE_S
        and event["type"] == "message.part.delta"
        and event["properties"]["messageID"] in of_others
    )


def _in_short(event: Raw) -> str:
    properties = event["properties"]
    info, status = properties.get("info", {}), properties.get("status", {})
    error = (info.get("error") or properties.get("error") or {}).get("name")
    found = {
        "role": info.get("role"),
        "model": info.get("modelID") or info.get("model", {}).get("modelID"),
        "done": "completed" in info.get("time", {}) or None,
        "finish": info.get("finish"),
        "error": error,
        "status": status.get("type") if isinstance(status, dict) else None,
    }
    return " ".join([event["type"], *(f"{name}={value}" for name, value in found.items() if value)])


async def _post(client: httpx2.AsyncClient, path: str, body: object, headers: dict[str, str]) -> Any:
    response = await client.post(path, json=body, headers=headers)
    response.raise_for_status()
    return response.json() if response.content else None


def _json(text: str) -> Raw:
    event: Raw = json.loads(text)
    return event
