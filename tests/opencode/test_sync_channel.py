"""Questions that the host asks over two named pipes, and at which it stands still until they are answered."""

import json
import os
import stat
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

from fallback_plugin.opencode.json_rpc import Params, Peer
from fallback_plugin.opencode.stdio import FdReceiveStream, FdSendStream
from fallback_plugin.opencode.sync_channel import WAITS_S, serve
from tests.opencode.test_json_rpc import Wire

pytestmark = pytest.mark.anyio

GREETING = 1


class Host:
    """The other side of both: it writes lines to the usual pipe, and asks over the channel."""

    def __init__(self, usual: Wire, folder: Path) -> None:
        self.usual = usual
        self.folder = folder
        self._questions = FdSendStream(os.open(folder / "questions", os.O_WRONLY | os.O_NONBLOCK))
        self._answers = FdReceiveStream(os.open(folder / "answers", os.O_RDONLY | os.O_NONBLOCK))

    async def ask(self, method: str, **params: object) -> None:
        message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        await self._questions.send(json.dumps(message).encode() + b"\n")

    async def answer(self) -> Any:
        return json.loads(await self._answers.receive())


@asynccontextmanager
async def asking(taken: list[str], *, waits_s: float = WAITS_S) -> AsyncIterator[Host]:
    """Serve a host that has opened the channel; ``taken`` is filled with what was taken, in order."""

    async def answer(method: str, _params: Params) -> str:
        taken.append(method)
        return f"answer to {method}"

    to_peer, from_wire = anyio.create_memory_object_stream[bytes](100)
    to_wire, from_peer = anyio.create_memory_object_stream[bytes](100)
    peer = Peer(from_wire, to_wire, on_notification=lambda method, _: taken.append(method), on_request=answer)
    async with to_peer, from_wire, to_wire, from_peer, anyio.create_task_group() as tasks:
        tasks.start_soon(peer.run)
        tasks.start_soon(lambda: serve(peer, answer, waits_s=waits_s))
        wire = Wire(to_peer, from_peer)
        offer = await wire.hear()
        assert offer["method"] == "syncChannel"
        yield Host(wire, Path(offer["params"]["folder"]))
        tasks.cancel_scope.cancel()


async def test_a_question_is_answered_over_the_channel() -> None:
    taken: list[str] = []
    async with asking(taken) as host:
        await host.ask("hook/one", after=GREETING)

        assert await host.answer() == {"jsonrpc": "2.0", "id": 1, "result": "answer to hook/one"}


async def test_a_question_that_overtakes_what_was_written_before_it_waits_for_that() -> None:
    taken: list[str] = []
    async with asking(taken) as host:
        await host.ask("question", after=GREETING + 3)
        await anyio.wait_all_tasks_blocked()
        await host.usual.say({"method": "first", "params": {}})
        await host.usual.send.send(b"no JSON\n")
        await anyio.wait_all_tasks_blocked()
        assert taken == ["first"]
        await host.usual.say({"method": "second", "params": {}})
        await host.answer()

    assert taken == ["first", "second", "question"]


async def test_a_question_whose_forerunners_never_come_is_an_error_and_no_decision() -> None:
    taken: list[str] = []
    async with asking(taken, waits_s=0.0) as host:
        await host.ask("question", after=GREETING + 1)

        assert "error" in await host.answer()
    assert taken == []


async def test_a_question_that_says_nothing_of_what_came_before_is_answered() -> None:
    async with asking([]) as host:
        await host.ask("question")

        assert (await host.answer())["result"] == "answer to question"


async def test_nobody_else_can_look_into_the_folder_and_it_goes_with_the_channel() -> None:
    async with asking([]) as host:
        assert stat.S_IMODE(host.folder.stat().st_mode) == 0o700
        assert {stat.S_IMODE(pipe.stat().st_mode) for pipe in host.folder.iterdir()} == {0o600}

    assert not host.folder.exists()


async def test_a_system_without_named_pipes_is_asked_the_usual_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "mkfifo")
    told: list[str] = []

    class Silent:
        def notify(self, method: str, _params: Params) -> None:
            told.append(method)

    await serve(Silent(), lambda *_: None)  # type: ignore[arg-type]

    assert told == []
