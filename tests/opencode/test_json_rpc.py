import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest
from anyio.abc import ObjectReceiveStream, ObjectSendStream

from fallback_plugin.opencode.json_rpc import METHOD_NOT_FOUND, Params, Peer, PeerGoneError, RemoteError

pytestmark = pytest.mark.anyio


class Wire:
    """The other side, spelled in raw lines."""

    def __init__(self, send: ObjectSendStream[bytes], receive: ObjectReceiveStream[bytes]) -> None:
        self.send = send
        self.receive = receive

    async def say(self, message: object) -> None:
        await self.send.send(json.dumps(message).encode() + b"\n")

    async def hear(self) -> dict[str, Any]:
        message: dict[str, Any] = json.loads(await self.receive.receive())
        return message


async def refuse_all(method: str, _params: Params) -> object:
    raise RemoteError(METHOD_NOT_FOUND, f"unknown method {method!r}")


@asynccontextmanager
async def running(
    *,
    on_notification: Callable[[str, Params], None] = lambda _method, _params: None,
    on_request: Callable[[str, Params], Awaitable[Any]] = refuse_all,
    longest_line: int = 1000,
) -> AsyncIterator[tuple[Peer, Wire]]:
    to_peer, from_wire = anyio.create_memory_object_stream[bytes](100)
    to_wire, from_peer = anyio.create_memory_object_stream[bytes](100)
    peer = Peer(
        from_wire,
        to_wire,
        on_notification=on_notification,
        on_request=on_request,
        longest_line=longest_line,
    )
    async with to_peer, from_wire, to_wire, from_peer, anyio.create_task_group() as tasks:
        tasks.start_soon(peer.run)
        yield peer, Wire(to_peer, from_peer)
        await to_peer.aclose()


async def test_a_request_gets_the_result_with_its_id_whatever_the_order_of_answers() -> None:
    results: dict[str, Any] = {}
    async with running() as (peer, wire), anyio.create_task_group() as tasks:

        async def ask(method: str) -> None:
            results[method] = await peer.request(method, {}, deadline_s=5)

        tasks.start_soon(ask, "one")
        tasks.start_soon(ask, "two")
        asked = [await wire.hear(), await wire.hear()]
        for request in reversed(asked):
            await wire.say({"id": request["id"], "result": request["method"].upper()})
    assert results == {"one": "ONE", "two": "TWO"}


async def test_an_error_answer_is_raised_with_its_number() -> None:
    async with running() as (peer, wire), anyio.create_task_group() as tasks:

        async def answer() -> None:
            request = await wire.hear()
            await wire.say({"id": request["id"], "error": {"code": -32601, "message": "not allowed"}})

        tasks.start_soon(answer)
        with pytest.raises(RemoteError, match="not allowed") as raised:
            await peer.request("host/call", {}, deadline_s=5)
    assert raised.value.number == METHOD_NOT_FOUND


async def test_a_request_without_an_answer_ends_at_its_deadline() -> None:
    async with running() as (peer, _wire):
        with pytest.raises(TimeoutError):
            await peer.request("host/call", {}, deadline_s=0)


async def test_an_open_request_fails_when_the_other_side_goes() -> None:
    async with running() as (peer, wire), anyio.create_task_group() as tasks:

        async def leave() -> None:
            await wire.hear()
            await wire.send.aclose()

        tasks.start_soon(leave)
        with pytest.raises(PeerGoneError):
            await peer.request("host/call", {}, deadline_s=5)
        with pytest.raises(PeerGoneError):
            await peer.request("host/call", {}, deadline_s=5)


async def test_notifications_come_in_order_and_surround_lines_that_make_no_sense() -> None:
    heard: list[str] = []
    last = anyio.Event()

    def notice(method: str, _params: Params) -> None:
        heard.append(method)
        if method == "last":
            last.set()

    async with running(on_notification=notice) as (_peer, wire):
        await wire.say({"method": "first"})
        for nonsense in (b"not json\n", b"[1]\n", b"\n", b"\xff\xfe\n", b'{"id": 99, "result": 1}\n'):
            await wire.send.send(nonsense)
        await wire.send.send(b'"' + b"x" * 2000 + b'"\n')
        await wire.say({"method": "last", "params": 3})
        await last.wait()
    assert heard == ["first", "last"]


async def test_requests_are_answered_side_by_side() -> None:
    release = anyio.Event()

    async def answer(method: str, params: Params) -> object:
        if method == "slow":
            await release.wait()
        return {"method": method, **params}

    async with running(on_request=answer) as (_peer, wire):
        await wire.say({"id": "a", "method": "slow"})
        await wire.say({"id": "b", "method": "quick", "params": {"n": 1}})
        assert await wire.hear() == {"jsonrpc": "2.0", "id": "b", "result": {"method": "quick", "n": 1}}
        release.set()
        assert (await wire.hear())["id"] == "a"


async def test_an_unknown_method_is_an_error_of_the_request() -> None:
    async with running() as (_peer, wire):
        await wire.say({"id": 1, "method": "nonsense"})
        assert (await wire.hear())["error"] == {"code": -32601, "message": "unknown method 'nonsense'"}


@pytest.mark.parametrize("broken", [ValueError("secret"), object()], ids=["raises", "is not JSON"])
async def test_an_answer_that_cannot_be_given_is_an_error_without_its_details(broken: object) -> None:
    async def answer(_method: str, _params: Params) -> object:
        if isinstance(broken, Exception):
            raise broken
        return broken

    async with running(on_request=answer) as (_peer, wire):
        await wire.say({"id": 1, "method": "hook/x"})
        error = (await wire.hear())["error"]
    assert error == {"code": -32603, "message": "see fallback-plugin's log"}


async def test_a_message_is_one_line_whatever_its_text_holds() -> None:
    async with running() as (peer, wire):
        peer.notify("m", {"text": "line\nbreak \u2028 \ud83d"})
        raw = await wire.receive.receive()
    assert raw.count(b"\n") == 1
    assert json.loads(raw)["params"]["text"] == "line\nbreak \u2028 \ud83d"
