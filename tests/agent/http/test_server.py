"""A real uvicorn on loopback."""

import asyncio
import socket
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

import anyio
import httpx2
import pytest
from anyio.abc import SocketStream

from fallback_plugin.agent.http.event_stream import EventStream
from fallback_plugin.agent.http.guard import App, Message, Receive, Send
from fallback_plugin.agent.http.patience import PatientProtocol
from fallback_plugin.agent.http.server import is_loopback, listening, serve, url_of
from fallback_plugin.errors import AgentError

pytestmark = pytest.mark.anyio


async def hello(scope: Message, receive: Receive, send: Send) -> None:
    del scope, receive
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"hello"})


@asynccontextmanager
async def running(app: App = hello) -> AsyncIterator[socket.socket]:
    stop = anyio.Event()
    listener = listening("127.0.0.1", 0)
    async with anyio.create_task_group() as tasks:
        await tasks.start(partial(serve, app, listener, stop))
        yield listener
        stop.set()


async def drip(stream: SocketStream) -> None:
    """Send a line of a head again and again, until the other end has had enough."""
    while True:
        await stream.send(b"x-drop: 1\r\n")
        with anyio.move_on_after(0.01):
            await stream.receive()


async def connected(listener: socket.socket) -> SocketStream:
    return await anyio.connect_tcp("127.0.0.1", listener.getsockname()[1])


async def test_calls_are_answered_until_it_is_told_to_stop() -> None:
    async with running() as listener, httpx2.AsyncClient(base_url=url_of(listener)) as http:
        assert (await http.get("/")).text == "hello"

    with pytest.raises(OSError, match=r".*"):
        await connected(listener)


@pytest.mark.parametrize("sent", [b"", b"GET / HTTP/1.1\r\nhost: localhost\r\nx-slow: "])
async def test_a_head_that_does_not_end_is_not_waited_for(
    sent: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(PatientProtocol, "head_within_s", 0.05)
    async with running() as listener, await connected(listener) as stream:
        if sent:
            await stream.send(sent)
        with pytest.raises(anyio.EndOfStream):
            await stream.receive()


async def test_a_head_that_drips_gets_no_more_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PatientProtocol, "head_within_s", 0.1)
    async with running() as listener, await connected(listener) as stream:
        await stream.send(b"GET / HTTP/1.1\r\n")
        with pytest.raises((anyio.BrokenResourceError, anyio.EndOfStream)):
            await drip(stream)


async def test_a_call_may_take_longer_than_its_head(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PatientProtocol, "head_within_s", 0.1)

    async def at_leisure(scope: Message, receive: Receive, send: Send) -> None:
        await anyio.sleep(0.2)  # the window in which nothing may be closed
        await hello(scope, receive, send)

    async with running(at_leisure) as listener, httpx2.AsyncClient(base_url=url_of(listener)) as http:
        assert (await http.post("/", content=b"x")).text == "hello"


async def test_a_client_that_reads_nothing_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PatientProtocol, "taken_within_s", 0.05)
    gone = anyio.Event()

    async def flood() -> AsyncGenerator[bytes]:
        try:
            while True:
                yield b"data: " + b"x" * 1_000_000 + b"\n\n"
                await anyio.lowlevel.checkpoint()
        finally:
            gone.set()

    async with running(EventStream(flood(), b"")) as listener, await connected(listener) as stream:
        await stream.send(b"GET /event HTTP/1.1\r\nhost: localhost\r\n\r\n")
        await gone.wait()


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
async def test_H2_accepted_sockets_send_at_once(host: str) -> None:
    accepted: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    class Protocol(asyncio.Protocol):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            its_socket = transport.get_extra_info("socket")
            accepted.set_result(its_socket.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
            transport.close()

    try:
        listener = listening(host, 0)
    except AgentError:
        pytest.skip(f"this machine has no {host}")
    server = await asyncio.get_running_loop().create_server(Protocol, sock=listener)
    async with server, await anyio.connect_tcp(host, listener.getsockname()[1]):
        assert await accepted == 1


async def test_H3_a_stream_is_asked_for_more_when_all_of_it_is_on_the_socket(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    transports: list[asyncio.Transport] = []
    connection_made = PatientProtocol.connection_made

    def record(protocol: PatientProtocol, transport: asyncio.Transport) -> None:
        transports.append(transport)
        connection_made(protocol, transport)

    monkeypatch.setattr(PatientProtocol, "connection_made", record)
    unsent: list[int] = []

    async def pieces() -> AsyncGenerator[bytes]:
        for _ in range(200):
            yield b"data: " + b"x" * 50_000 + b"\n\n"
            unsent.append(transports[0].get_write_buffer_size())
            await anyio.lowlevel.checkpoint()

    async with running(EventStream(pieces(), b"")) as listener, await connected(listener) as stream:
        await stream.send(b"GET /event HTTP/1.1\r\nhost: localhost\r\n\r\n")
        while len(unsent) < 200:
            await stream.receive(1 << 20)
            await anyio.wait_all_tasks_blocked()  # the socket is full, but for the end
    assert set(unsent) == {0}


async def test_a_stream_ends_when_its_client_goes() -> None:
    gone = anyio.Event()

    async def for_ever() -> AsyncGenerator[bytes]:
        try:
            yield b"data: first\n\n"
            await anyio.sleep_forever()
        finally:
            gone.set()

    async with running(EventStream(for_ever(), b"")) as listener:
        async with await connected(listener) as stream:
            await stream.send(b"GET /event HTTP/1.1\r\nhost: localhost\r\n\r\n")
            while b"first" not in await stream.receive():
                pass
        await gone.wait()


async def test_heartbeats_come_in_between() -> None:
    async def for_ever() -> AsyncGenerator[bytes]:
        yield b"data: first\n\n"
        await anyio.sleep_forever()

    streams = EventStream(for_ever(), b"data: beat\n\n", heartbeat_s=0.01)
    heard: list[str] = []
    async with (
        running(streams) as listener,
        httpx2.AsyncClient(base_url=url_of(listener)) as http,
        http.stream("GET", "/event") as response,
    ):
        async for line in response.aiter_lines():
            heard.append(line)
            if heard.count("data: beat") == 2:
                break

    assert heard[:3] == ["data: first", "", "data: beat"]
    assert response.headers["content-type"] == "text/event-stream"


def test_a_port_that_is_taken_is_said() -> None:
    with listening("127.0.0.1", 0) as taken, pytest.raises(AgentError, match="Choose another --port"):
        listening("127.0.0.1", taken.getsockname()[1])


def test_an_address_of_another_machine_is_said() -> None:
    with pytest.raises(AgentError, match="cannot listen at 192\\.0\\.2\\.1:0"):
        listening("192.0.2.1", 0)


@pytest.mark.parametrize(
    ("host", "expected"),
    [("127.0.0.1", True), ("localhost", True), ("::1", True), ("0.0.0.0", False), ("build.lan", False)],  # noqa: S104 -- the point
)
def test_what_only_this_machine_can_reach(host: str, *, expected: bool) -> None:
    assert is_loopback(host) is expected
