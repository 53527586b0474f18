"""Stops of a user in the moment of a switch, many sessions side by side, and what was asked after each."""

import asyncio
import json
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

import httpx2

from tests.loopback.event_log import Raw, folder_header, session_of
from tests.loopback.provider import SMALL_MODEL, Request, ScriptedProvider

GRACE_S: Final = 0.010
"""How long after a stop was answered a request that was on its way may still arrive."""
SIGN_LIMIT_S: Final = 60.0
WORDS: Final = "Who answers?"
NEXT_WORDS: Final = "And who answers this?"
LAST_WORDS: Final = "And this?"
NEXT_LIMIT_S: Final = 120.0
"""How long the next message may wait for its answer; a step took OpenCode half a minute on a busy machine."""
WATCH_S: Final = 2.0
"""How long a session is watched after its stop; requests were seen up to 1.5 s after one."""

Sign: TypeAlias = Literal["answered", "shown", "idle", "told"]
"""What a delay counts from: the provider's last byte, the failure's first sign in the host's events (one
that is answered inline has none but our toast), the end of its run, our toast."""


@dataclass(frozen=True, slots=True)
class Stop:
    """One stop to try: ``delay_s`` after a ``sign`` of a failure of ``model``, as ``provider/model``.

    ``directory`` is the project folder, None for the host's own. Without a ``title`` the host makes one up in
    the session's first run, beside the turn. The user's next message comes ``next_after_s`` after the stop
    was answered, None for never, and is stopped in its turn ``again_after_s`` later, None for never. One more
    may follow, ``last_after_s`` after that stop. Where nothing ``is_stopped``, the next message comes in the
    moment of the switch.
    """

    model: str
    delay_s: float
    directory: Path | None = None
    sign: Sign = "shown"
    agent: str = "build"
    title: str | None = None
    next_after_s: float | None = None
    again_after_s: float | None = None
    last_after_s: float | None = None
    is_stopped: bool = True

    @property
    def ends(self) -> bool:
        """Whether anything is stopped."""
        return self.is_stopped or self.again_after_s is not None

    @property
    def goes_on(self) -> bool:
        """Whether a message comes that is not stopped."""
        return self.wanted_words is not None

    @property
    def wanted_words(self) -> str | None:
        """The text of that message."""
        if self.again_after_s is not None:
            return None if self.last_after_s is None else LAST_WORDS
        return None if self.next_after_s is None else NEXT_WORDS


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a stop.

    Attributes:
        stop: what was tried.
        answered_at: when the host answered it, on the monotonic clock.
        late_s: when a model was asked for the stopped turn after that, in seconds after the answer.
        said: the text that models other than the failing one showed of that turn after the answer.
        toasts: when toasts of that turn were shown after the answer, in seconds after it.
        lost: the user's next message got no answer.
        seen: what the host published of the session, with the seconds after the answer.
    """

    stop: Stop
    answered_at: float
    late_s: tuple[float, ...]
    said: str
    toasts: tuple[float, ...]
    lost: bool
    seen: tuple[tuple[float, str], ...]

    @property
    def is_kept(self) -> bool:
        """Whether the promise was kept: nothing asked or said after the stop, an answer to what came next."""
        nothing_asked = all(late <= GRACE_S for late in self.late_s)
        return nothing_asked and not self.said and not self.toasts and not self.lost


@dataclass(slots=True)
class _Watched:
    """What is known of a session while its stop is tried."""

    stop: Stop
    sign: asyncio.Event = field(default_factory=asyncio.Event)
    events: list[tuple[float, Raw]] = field(default_factory=list)
    is_over: bool = False
    toasts_at: list[float] = field(default_factory=list)
    next_message: str | None = None
    next_answered: asyncio.Event = field(default_factory=asyncio.Event)

    def take(self, event: Raw) -> None:
        """Take in an event of the session."""
        self.events.append((time.monotonic(), event))
        if _is_sign(event, self.stop.sign):
            self.sign.set()
        part, info = event["properties"].get("part", {}), event["properties"].get("info", {})
        if part and part.get("text") == self.stop.wanted_words:
            self.next_message = part["messageID"]
        answers = info.get("parentID") is not None and info["parentID"] == self.next_message
        if answers and info.get("finish") == "stop":
            self.next_answered.set()

    def take_toast(self) -> None:
        """Take in a toast of ours about the failing model."""
        if self.stop.sign in {"told", "shown"}:
            self.sign.set()
        if self.is_over:
            self.toasts_at.append(time.monotonic())


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
        prompt = {"agent": stop.agent, "model": {"providerID": provider, "modelID": model}}
        first, after, last = (
            {**prompt, "parts": [{"type": "text", "text": words}]}
            for words in (WORDS, NEXT_WORDS, LAST_WORDS)
        )
        await _post(client, f"/session/{session}/prompt_async", first, folder)
        async with asyncio.timeout(SIGN_LIMIT_S):
            if stop.sign == "answered":
                await asyncio.to_thread(self._provider.wait_for, lambda: self._has_answered(session, model))
            else:
                await watched.sign.wait()
        await asyncio.sleep(stop.delay_s)
        if stop.is_stopped:
            await _post(client, f"/session/{session}/abort", None, folder)
        answered_at = time.monotonic()
        if stop.next_after_s is not None:
            await asyncio.sleep(stop.next_after_s)
            await _post(client, f"/session/{session}/prompt_async", after, folder)
        if stop.again_after_s is not None:
            await asyncio.sleep(stop.again_after_s)
            await _post(client, f"/session/{session}/abort", None, folder)
            answered_at = time.monotonic()
            if stop.last_after_s is not None:
                await asyncio.sleep(stop.last_after_s)
                await _post(client, f"/session/{session}/prompt_async", last, folder)
        if stop.goes_on:
            with suppress(TimeoutError):
                async with asyncio.timeout(NEXT_LIMIT_S):
                    await watched.next_answered.wait()
        if stop.ends and not stop.goes_on:
            # Events come in order, and late on a busy machine: what comes after this was shown after it.
            await _post(client, "/tui/show-toast", {"message": session, "variant": "info"}, folder)
        await asyncio.sleep(WATCH_S)
        del self._watched[session]
        return Outcome(
            stop,
            answered_at,
            tuple(self._late(session, stop, answered_at)),
            _said_after(watched, answered_at, model) if stop.ends else "",
            tuple(at - answered_at for at in watched.toasts_at),
            stop.goes_on and not watched.next_answered.is_set(),
            tuple((at - answered_at, _in_short(event)) for at, event in watched.events),
        )

    def _late(self, session: str, stop: Stop, answered_at: float) -> Iterator[float]:
        """Yield when a model was asked after the last stop, in seconds, but for what came after it.

        The first title is the host's own doing: it makes one up beside the first run, come what may.
        """
        own_title = next(iter(self._provider.requests(SMALL_MODEL, session=session)), None)
        for request in self._provider.requests(session=session):
            late_s = request.arrived_at - answered_at
            wanted = request is own_title or _is_for(request, stop.wanted_words)
            if stop.ends and late_s > 0 and not wanted:
                yield late_s

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
            if ended := self._watched.get(said):
                ended.is_over = True
            for watched in self._watched.values():
                if watched.stop.model in said:
                    watched.take_toast()
        of = self._watched.get(session_of(event) or "")
        if of is not None:
            of.take(event)


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
            f" asked {late or 'nobody'} after the stop; said {outcome.said!r}; toasts {outcome.toasts};"
            f" next messages after {outcome.stop.next_after_s} and {outcome.stop.last_after_s} s"
            f"{', lost' if outcome.lost else ''}"
        )
        lines += [f"    {1000 * at:7.0f} ms {event}" for at, event in outcome.seen]
    return "\n".join(lines)


def _is_for(request: Request, words: str | None) -> bool:
    """Tell whether a request is for a message, or for a title, which its run makes up."""
    if words is None:
        return False
    said = [message for message in request.body.get("messages", ()) if message["role"] == "user"]
    return request.model == SMALL_MODEL or words in json.dumps(said[-1:])


def _said_after(watched: _Watched, answered_at: float, failing: str) -> str:
    """Return what models other than the failing one said after a stop, but to the message after it."""
    events, but_to = watched.events, watched.next_message
    of_others = {
        event["properties"]["info"]["id"]
        for _, event in events
        if event["type"] == "message.updated"
        and event["properties"]["info"]["role"] == "assistant"
        and event["properties"]["info"]["modelID"] != failing
        and event["properties"]["info"]["parentID"] != but_to
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
