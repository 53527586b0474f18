"""A server with two sessions, the way to it and back, and a person who does anything at any time.

Events arrive in the order in which they were said, but as late as you like; an answer shows the session as it
was when the server wrote it, and arrives when it likes, also after the pager has given its request up.
"""

import copy
import json
from collections import deque
from typing import TYPE_CHECKING, Any, Final

from hypothesis import strategies as st

from fallback_plugin.history import PageRequest
from fallback_plugin.history.events import message_of
from tests.history.driving import Driver, Step, delta, text_part

if TYPE_CHECKING:
    from collections.abc import Callable

CALLS: Final = (
    *("load_older",) * 5,
    *("load_newer",) * 3,
    *("jump_to_start", "jump_to_latest", "ensure_all", "ensure_all"),
    *("open", "reload", "cancel", "compacted"),
)
LENGTHS: Final = (("A", (6, 24)), ("B", (0, 6)))
LOST: Final = {"type": "server.events.lost", "properties": {}}


class Session:
    """What the server knows of one session, and what it says about it."""

    def __init__(self, session_id: str, length: int, said: deque[Step]) -> None:
        self.id = session_id
        self.messages: list[dict[str, Any]] = []
        self.revision = 0
        self._said = said
        self._end = 1
        self._names = 0
        for _ in range(length):
            self.append(aloud=False)

    def append(self, message_id: str | None = None, *, aloud: bool = True) -> None:
        self._names += message_id is None
        message_id = message_id or f"{self.id.lower()}{self._names}"
        info = {"id": message_id, "sessionID": self.id, "edits": 0}
        part = text_part(message_id, "é😀")
        message = {"info": info, "parts": [part], "position": self._end}
        self._end += 1
        self.messages.append(message)
        if aloud:
            self._say_message(message)
            self._say("message.part.updated", part=part)

    def edit(self, index: int) -> None:
        message = self.messages[index]
        message["info"] = {**message["info"], "edits": message["info"]["edits"] + 1}
        self._say_message(message)

    def grow(self, index: int) -> None:
        message = self.messages[index]
        part = message["parts"][0]
        message["parts"] = [{**part, "text": part["text"] + "é🚀"}]
        self._said.append(delta(message["info"]["id"], "é🚀", len(message["parts"][0]["text"])))

    def remove(self, index: int) -> str:
        message_id: str = self.messages.pop(index)["info"]["id"]
        self.revision += 1
        self._say("message.removed", messageID=message_id)
        return message_id

    def undo(self, count: int) -> None:
        lost, self.messages = self.messages[-count:], self.messages[:-count]
        self.revision += 1
        for message in lost:
            self._say("message.removed", messageID=message["info"]["id"])

    def page(self, request: PageRequest, *, has_cursors: bool) -> dict[str, Any]:
        """Answer as the server's store does."""
        low, high = place(request.after, 0), place(request.before, self._end)
        found = [message for message in self.messages if low <= message["position"] < high]
        is_newest = request.order == "desc"
        shown = found[-request.limit :] if is_newest else found[: request.limit]
        page: dict[str, Any] = {"items": [self._item(message, has_cursors) for message in shown]}
        page["revision"] = self.revision
        if len(shown) < len(found):
            if is_newest:
                page["next_before"] = cursor(shown[0]["position"])
            else:
                page["next_after"] = cursor(shown[-1]["position"] + 1)
        return page

    def between(self, older: str | None, newer: str | None) -> list[dict[str, Any]]:
        low, high = place(older, 0), place(newer, self._end)
        return [message for message in self.messages if low <= message["position"] < high]

    def _item(self, message: dict[str, Any], has_cursors: bool) -> dict[str, Any]:  # noqa: FBT001
        return {**message, "cursor": cursor(message["position"])} if has_cursors else dict(message)

    def _say_message(self, message: dict[str, Any]) -> None:
        place = {"position": message["position"], "cursor": cursor(message["position"])}
        self._say("message.updated", info=message["info"], **place)

    def _say(self, kind: str, **properties: object) -> None:
        self._said.append({"type": kind, "properties": {"sessionID": self.id, **properties}})


def cursor(position: int) -> str:
    return f"before {position}"


def place(given: str | None, default: int) -> int:
    return default if given is None else int(given.removeprefix("before "))


class World:
    """Makes a schedule by running it: each step depends on what the pager has asked for."""

    def __init__(self, data: st.DataObject) -> None:
        self._data = data
        self.options = {"page_rows": 3, "window_rows": 8}
        self.said: deque[Step] = deque()
        self.sessions = {name: Session(name, self._number(*length), self.said) for name, length in LENGTHS}
        self.has_cursors = data.draw(st.booleans(), "cursors for each message")
        self.driver = Driver(self.options)
        self.record: list[dict[str, Any]] = []
        self._written: dict[int, dict[str, Any]] = {}

    async def run(self) -> None:
        try:
            await self._step({"call": "open", "args": ["A"]})
            for _ in range(self._number(10, 40)):
                await self._anything()
            await self._calm()
            self._check_all_is_held()
        finally:
            await self.driver.leave()

    async def _anything(self) -> None:
        actions: list[Callable[[], Step | None]] = [self._call, self._call, self._change]
        if self.said:
            actions += [*(self._deliver,) * 3, self._lose]
        if self._open_requests():
            actions += [*(self._answer,) * 4, self._write_answer, self._fail]
        step = self._data.draw(st.sampled_from(actions))()
        if step is not None:
            await self._step(step)

    def _call(self) -> Step:
        name = self._data.draw(st.sampled_from(CALLS))
        if name == "open":
            return {"call": name, "args": [self._data.draw(st.sampled_from("AB"))]}
        if name == "ensure_all":
            return {
                "call": name,
                "limits": {"max_rows": self._number(1, 30)},
                "leave_after": self._number(1, 9),
            }
        if name == "compacted":
            return {"event": {"type": "session.compacted", "properties": {"sessionID": "A"}}}
        return {"call": name}

    def _change(self) -> None:
        session = self.sessions[self._data.draw(st.sampled_from("AAB"))]
        count = len(session.messages)
        kinds = ["append", "append"] + ["edit", "grow", "remove", "undo", "again"] * bool(count)
        match self._data.draw(st.sampled_from(kinds)):
            case "append":
                session.append()
            case "edit":
                session.edit(self._number(0, count - 1))
            case "grow":
                session.grow(self._number(0, count - 1))
            case "remove":
                session.remove(self._number(0, count - 1))
            case "undo":
                session.undo(self._number(1, min(count, 4)))
            case _:
                session.append(session.remove(self._number(0, count - 1)))

    def _deliver(self) -> Step:
        return {"event": self.said.popleft()}

    def _lose(self) -> Step:
        for _ in range(self._number(1, len(self.said))):
            self.said.popleft()
        return {"event": LOST}

    def _open_requests(self) -> list[int]:
        return [number for number, answer in enumerate(self.driver.answers) if not answer.done()]

    def _some_request(self) -> int:
        return self._data.draw(st.sampled_from(self._open_requests()))

    def _write_answer(self) -> None:
        number = self._some_request()
        self._written.setdefault(number, self._page(number))

    def _answer(self) -> Step:
        return self._answer_to(self._some_request())

    def _answer_to(self, number: int) -> Step:
        return {"reply": number, "page": self._written.get(number) or self._page(number)}

    def _fail(self) -> Step:
        return {"fail": self._some_request()}

    def _page(self, number: int) -> dict[str, Any]:
        request = self.driver.requests[number]
        page = self.sessions[request.session_id].page(request, has_cursors=self.has_cursors)
        return copy.deepcopy(page)

    async def _calm(self) -> None:
        """Let everything arrive, and nothing else happen."""
        while self.said:
            await self._step(self._deliver())
        for _ in range(200):
            if numbers := self._open_requests():
                await self._step(self._answer_to(numbers[0]))
            elif not self.driver.pager.is_current:
                await self._step({"call": "reload"})
            else:
                return
        raise AssertionError("the pager never comes to rest")

    async def _step(self, step: Step) -> None:
        step = copy.deepcopy(step)
        await self.driver.step(step)
        self._check_the_window()
        state = json.loads(json.dumps(self.driver.state()))
        self.record.append({**step, "then": state})

    def _check_the_window(self) -> None:
        """At any time: one session's messages, in order, none twice, none left out between two."""
        pager = self.driver.pager
        positions = [message.position or 0 for message in pager.messages]
        assert positions == sorted(set(positions))
        assert len({message.id for message in pager.messages}) == len(pager.messages)
        assert {message.info["sessionID"] for message in pager.messages} <= {pager.session_id}
        if pager.is_current and positions:
            held = {message.id for message in pager.messages}
            there = self.sessions[pager.session_id or ""].between(cursor(positions[0]), cursor(positions[-1]))
            on_the_way = {message_of(event) for event in self.said}
            assert {message["info"]["id"] for message in there} - on_the_way <= held

    def _check_all_is_held(self) -> None:
        """When all has arrived: exactly what the server holds between the window's two ends."""
        pager = self.driver.pager
        window = pager.window
        assert pager.under_way is None
        held = [(message.info, list(message.parts), message.position) for message in window.messages]
        there = self.sessions[window.session_id or ""].between(window.older, window.newer)
        assert held == [(message["info"], message["parts"], message["position"]) for message in there]

    def _number(self, least: int, most: int) -> int:
        return self._data.draw(st.integers(least, most))
