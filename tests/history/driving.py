"""Runs the steps of a vector or a schedule against the Python pager; js/driving.mjs is its twin.

A step does one thing, waits until nothing moves any more, and may say what is true then. The server's part is
played by the steps: a request waits until one answers it, also after the pager has given it up.
"""

import asyncio
import re
from collections.abc import Coroutine, Iterable, Mapping
from typing import Any, Final, TypeAlias

from fallback_plugin.errors import FallbackPluginError
from fallback_plugin.history import HistoryPager, Page, PageRequest

Step: TypeAlias = Mapping[str, Any]

TURNS: Final = 25
"""Turns of the event loop that the longest chain of callbacks takes, and some more."""

ANSWERS: Final = frozenset({"reply", "fail", "no_data"})


class Driver:
    """A pager, its server's requests, and what came of each call."""

    def __init__(self, options: Mapping[str, Any]) -> None:
        self.is_obedient = bool(options.get("obeys_aborts"))
        self.requests: list[PageRequest] = []
        self.answers: list[asyncio.Future[Page | None]] = []
        self.aborted: list[int] = []
        self.outcomes: list[str | None] = []
        self.painted: list[str] = []
        self.idle = 0
        self._has_cursors = options.get("cursors", "items") == "items"
        self._tasks: list[asyncio.Task[None]] = []
        self.pager = HistoryPager(
            self._fetch,
            options.get("session"),
            page_rows=options.get("page_rows", 10),
            window_rows=options.get("window_rows", 40),
            changed=self._paint,
        )

    async def step(self, step: Step) -> None:
        """Do one step and check what it says."""
        for one in step.get("together", [step]):
            self._do(one)
            self._check(one.get("at_once", {}))
        await self.settle()
        self._check(step.get("then", {}))

    async def settle(self) -> None:
        for _ in range(TURNS):
            await asyncio.sleep(0)

    async def leave(self) -> None:
        """Leave nothing behind that still waits."""
        self.pager.close()
        for answer in self.answers:
            answer.cancel()
        await self.settle()
        for task in self._tasks:
            task.cancel()
        await self.settle()

    def state(self) -> dict[str, Any]:
        """Return all that can be seen, as both languages write it."""
        pager = self.pager
        return {
            "session": pager.session_id,
            "window": compact(message.id for message in pager.messages),
            "visible": compact(message.id for message in pager.window.visible),
            "older": pager.window.older,
            "newer": pager.window.newer,
            "revision": pager.window.revision,
            "epoch": pager.epoch,
            "under_way": pager.under_way,
            "current": pager.is_current,
            "error": pager.error is not None,
            "requests": [spelled(request) for request in self.requests],
            "aborted": self.aborted,
            "outcomes": self.outcomes,
            "painted": self.painted,
            "idle": self.idle,
            "text": {
                part["id"]: part.get("text", "") for message in pager.messages for part in message.parts
            },
            "info": {message.id: message.info for message in pager.messages},
        }

    def _check(self, expected: Step) -> None:
        state = self.state()
        found = {
            name: {key: state[name].get(key) for key in value} if isinstance(value, dict) else state[name]
            for name, value in expected.items()
        }
        assert found == dict(expected)

    def _do(self, step: Step) -> None:
        match step:
            case {"call": "cancel" | "close" as name}:
                getattr(self.pager, name)()
            case {"call": "idle"}:
                self._spawn(self._wait_until_idle())
            case {"call": "ensure_all"}:
                limits = {"max_rows": 1000, "max_bytes": 10**9, **step.get("limits", {})}
                self._note(self._take_all(self.pager.ensure_all(**limits), step.get("leave_after")))
            case {"call": str(name)}:
                self._note(self._outcome(getattr(self.pager, name)(*step.get("args", ()))))
            case {"reply": _} | {"fail": _} | {"no_data": _}:
                self._answer(step)
            case _:
                self.pager.handle(self._event(step))

    def _event(self, step: Step) -> Step:
        match step:
            case {"updated": str(message_id)}:
                return self._message_updated(message_id)
            case {"removed": str(message_id)}:
                properties = {"sessionID": session_of(message_id), "messageID": message_id}
                return {"type": "message.removed", "properties": properties}
            case {"part": str(message_id)}:
                part = text_part(message_id, step["text"])
                return {
                    "type": "message.part.updated",
                    "properties": {"sessionID": part["sessionID"], "part": part},
                }
            case {"delta": str(message_id)}:
                return delta(message_id, step["text"], step.get("end"))
        event: Step = step["event"]
        return event

    def _answer(self, step: Step) -> None:
        (kind,) = ANSWERS & step.keys()
        answer = self.answers[step[kind]]
        if answer.done():
            return
        if kind == "fail":
            answer.set_exception(ConnectionError(step.get("error", "500")))
        else:
            answer.set_result(None if kind == "no_data" else self._page(step))

    def _page(self, step: Step) -> Page:
        raw = step.get("page") or {**step, "items": [self._item(one) for one in spread(step["items"])]}
        return Page(
            items=raw["items"],
            next_before=raw.get("next_before"),
            next_after=raw.get("next_after"),
            revision=raw.get("revision", 0),
        )

    def _item(self, spelled_out: str | Mapping[str, Any]) -> dict[str, Any]:
        if not isinstance(spelled_out, str):
            message_id = spelled_out["id"]
            return self._item(message_id) | {"parts": [text_part(message_id, spelled_out["text"])]}
        info = {"id": spelled_out, "sessionID": session_of(spelled_out)}
        return {"info": info, "parts": [], **self._place(spelled_out)}

    def _message_updated(self, message_id: str) -> dict[str, Any]:
        session_id = session_of(message_id)
        info = {"id": message_id, "sessionID": session_id, "new": True}
        properties = {"sessionID": session_id, "info": info, **self._place(message_id)}
        return {"type": "message.updated", "properties": properties}

    def _place(self, message_id: str) -> dict[str, Any]:
        return {"position": int(message_id[1:]), "cursor": message_id} if self._has_cursors else {}

    def _fetch(self, request: PageRequest) -> Coroutine[Any, Any, Page | None]:
        answer: asyncio.Future[Page | None] = asyncio.get_running_loop().create_future()
        self.requests.append(request)
        self.answers.append(answer)
        return self._wait_for(answer, len(self.answers) - 1)

    async def _wait_for(self, answer: "asyncio.Future[Page | None]", number: int) -> Page | None:
        while True:
            try:
                return await asyncio.shield(answer)
            except asyncio.CancelledError:
                self.aborted.append(number)
                if self.is_obedient or answer.cancelled():
                    raise

    def _note(self, outcome: Coroutine[Any, Any, str]) -> None:
        number = len(self.outcomes)
        self.outcomes.append(None)

        async def note() -> None:
            self.outcomes[number] = await outcome

        self._spawn(note())

    async def _outcome(self, call: "asyncio.Future[str]") -> str:
        return await call

    async def _take_all(self, pages: Any, leave_after: int | None) -> str:
        taken = 0
        try:
            async for _ in pages:
                taken += 1
                if taken == leave_after:
                    await pages.aclose()
                    break
        except (ConnectionError, FallbackPluginError):
            return f"{taken} pages, failed"
        return f"{taken} pages"

    async def _wait_until_idle(self) -> None:
        await self.pager.idle()
        self.idle += 1

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        self._tasks.append(asyncio.ensure_future(work))

    def _paint(self) -> None:
        window = compact(message.id for message in self.pager.messages)
        if self.painted[-1:] != [window]:
            self.painted.append(window)


def session_of(message_id: str) -> str:
    return message_id[0].upper()


def text_part(message_id: str, text: str) -> dict[str, Any]:
    return {
        "id": f"{message_id}/p",
        "messageID": message_id,
        "sessionID": session_of(message_id),
        "type": "text",
        "text": text,
    }


def delta(message_id: str, text: str, end: int | None) -> dict[str, Any]:
    properties: dict[str, Any] = {
        "sessionID": session_of(message_id),
        "messageID": message_id,
        "partID": f"{message_id}/p",
        "field": "text",
        "delta": text,
    }
    if end is not None:
        properties["end"] = end
    return {"type": "message.part.delta", "properties": properties}


def spelled(request: PageRequest) -> str:
    """Return a request in words, as ``A last 10 before a91`` or ``A first 10``."""
    end = "last" if request.order == "desc" else "first"
    before = "" if request.before is None else f" before {request.before}"
    after = "" if request.after is None else f" after {request.after}"
    return f"{request.session_id} {end} {request.limit}{before}{after}"


def spread(items: str | list[Any]) -> list[Any]:
    """Return the ids that ``a1-a3,a5`` stands for; in a list, of each of its strings."""
    if not isinstance(items, str):
        return [one for item in items for one in (spread(item) if isinstance(item, str) else [item])]
    found: list[str] = []
    for piece in filter(None, items.split(",")):
        first, _, last = piece.partition("-")
        numbers = range(int(first[1:]), int((last or first)[1:]) + 1)
        found.extend(f"{first[0]}{number}" for number in numbers)
    return found


def compact(ids: Iterable[str]) -> str:
    """Return ids as ``a1-a3,a5``: the opposite of `spread`."""
    runs: list[list[str]] = []
    for message_id in ids:
        if runs and _next(runs[-1][-1]) == message_id:
            runs[-1][1:] = [message_id]
        else:
            runs.append([message_id])
    return ",".join("-".join(run) for run in runs)


def _next(message_id: str) -> str:
    return re.sub(r"\d+$", lambda found: str(int(found[0]) + 1), message_id)


async def run(options: Mapping[str, Any], steps: Iterable[Step]) -> None:
    driver = Driver(options)
    try:
        for step in steps:
            await driver.step(step)
    finally:
        await driver.leave()
