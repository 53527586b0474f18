"""The event stream, against a real socket: a mock would buffer the whole body."""

import json
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final

import httpx2
import pytest
from anyio import fail_after, to_thread

from fallback_plugin.errors import HostCallError, HostCallTimeoutError
from fallback_plugin.opencode.event_stream import open_events
from fallback_plugin.opencode.http_client import connect

pytestmark = pytest.mark.anyio

CONNECTED: Final = {"id": "evt_1", "type": "server.connected", "properties": {}}
IDLE: Final = {"id": "evt_2", "type": "session.idle", "properties": {"sessionID": "ses_1"}}
HEARTBEAT: Final = {"id": "evt_3", "type": "server.heartbeat", "properties": {}}


class Stream:
    """What a scripted server does with its one open answer."""

    def __init__(self, handler: BaseHTTPRequestHandler) -> None:
        self._handler = handler

    def send(self, *events: object) -> None:
        for event in events:
            self.send_bytes(f"data: {json.dumps(event)}\n\n".encode())

    def send_bytes(self, data: bytes) -> None:
        self._handler.wfile.write(b"%x\r\n%b\r\n" % (len(data), data))
        self._handler.wfile.flush()

    def end(self) -> None:
        self._handler.wfile.write(b"0\r\n\r\n")


class Server(ThreadingHTTPServer):
    """Serves one script to whoever connects, and keeps the requests."""

    daemon_threads = True

    def __init__(self, script: Callable[[Stream], None], *, status: int = 200) -> None:
        self.requests: list[dict[str, str]] = []

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(handler) -> None:  # noqa: N805 -- the standard library's name; the server is `self`
                self.requests.append(
                    {"path": handler.path, **{k.lower(): v for k, v in handler.headers.items()}}
                )
                handler.send_response(status)
                if status != 200:
                    handler.send_header("content-length", "0")
                    handler.end_headers()
                    return
                handler.send_header("content-type", "text/event-stream")
                handler.send_header("transfer-encoding", "chunked")
                handler.end_headers()
                handler.close_connection = True
                script(Stream(handler))

            def log_message(self, *_: Any) -> None:
                """Be quiet."""

        super().__init__(("127.0.0.1", 0), Handler)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


@contextmanager
def serving(script: Callable[[Stream], None], *, status: int = 200) -> Iterator[Server]:
    with Server(script, status=status) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture
async def http() -> AsyncIterator[httpx2.AsyncClient]:
    async with httpx2.AsyncClient(trust_env=False) as client:
        yield client


async def test_it_asks_for_the_events_of_its_folder_with_its_password() -> None:
    with serving(lambda stream: stream.send(CONNECTED)) as server:
        async with (
            connect(server.url, directory="/a b", password="p") as client,
            client.events() as events,
        ):
            await anext(events)

    (request,) = server.requests
    assert request["path"] == "/event"
    assert request["accept"] == "text/event-stream"
    assert request["x-opencode-directory"] == "/a%20b"
    assert request["authorization"] == "Basic b3BlbmNvZGU6cA=="


async def test_the_events_of_all_folders_come_from_another_path() -> None:
    with serving(lambda stream: stream.send({"payload": CONNECTED})) as server:
        async with connect(server.url) as client, client.all_events() as events:
            assert await anext(events) == {"payload": CONNECTED}

    (request,) = server.requests
    assert request["path"] == "/global/event"
    assert "x-opencode-directory" not in request


async def test_an_event_arrives_while_the_stream_is_open(http: httpx2.AsyncClient) -> None:
    seen = threading.Event()

    def script(stream: Stream) -> None:
        stream.send(CONNECTED)
        # The second event is sent only when the first was received: nothing is buffered.
        if seen.wait(5):
            stream.send(IDLE)

    with serving(script) as server:
        http.base_url = httpx2.URL(server.url)
        async with open_events(http) as events:
            first = await anext(events)
            seen.set()
            second = await anext(events)

    assert [first, second] == [CONNECTED, IDLE]


@pytest.mark.parametrize(("heartbeats", "expected"), [(False, [IDLE]), (True, [HEARTBEAT, IDLE])])
async def test_heartbeats_are_left_out_unless_asked_for(
    heartbeats: bool,  # noqa: FBT001 -- a parameter of the test
    expected: list[object],
    http: httpx2.AsyncClient,
) -> None:
    with serving(lambda stream: stream.send(HEARTBEAT, IDLE)) as server:
        http.base_url = httpx2.URL(server.url)
        async with open_events(http, heartbeats=heartbeats) as events:
            received = [await anext(events) for _ in expected]

    assert received == expected


async def test_lines_that_are_no_event_are_left_out(http: httpx2.AsyncClient) -> None:
    def script(stream: Stream) -> None:
        stream.send_bytes(b": a comment\n\ndata: {not json\n\ndata: [1]\n\nid: 7\n\n")
        stream.send(IDLE)

    with serving(script) as server:
        http.base_url = httpx2.URL(server.url)
        async with open_events(http) as events:
            assert await anext(events) == IDLE


async def test_an_event_split_inside_a_character_is_whole(http: httpx2.AsyncClient) -> None:
    event = {**IDLE, "text": "日本"}
    data = f"data: {json.dumps(event, ensure_ascii=False)}\n\n".encode()

    def script(stream: Stream) -> None:
        for byte in data:
            stream.send_bytes(bytes([byte]))

    with serving(script) as server:
        http.base_url = httpx2.URL(server.url)
        async with open_events(http) as events:
            assert await anext(events) == event


async def test_an_event_of_ten_megabytes_arrives(http: httpx2.AsyncClient) -> None:
    event = {**IDLE, "text": "x" * 10_000_000}

    with serving(lambda stream: stream.send(event)) as server:
        http.base_url = httpx2.URL(server.url)
        async with open_events(http) as events:
            assert await anext(events) == event


async def test_the_end_of_the_stream_is_an_error(http: httpx2.AsyncClient) -> None:
    def script(stream: Stream) -> None:
        stream.send(CONNECTED)
        stream.end()

    with serving(script) as server:
        http.base_url = httpx2.URL(server.url)
        async with open_events(http) as events:
            await anext(events)
            with pytest.raises(HostCallError, match="ended the stream"):
                await anext(events)


async def test_a_connection_that_breaks_is_an_error(http: httpx2.AsyncClient) -> None:
    with serving(lambda stream: stream.send(CONNECTED)) as server:
        http.base_url = httpx2.URL(server.url)
        async with open_events(http) as events:
            await anext(events)
            with pytest.raises(HostCallError, match="broke off"):
                await anext(events)


async def test_a_silent_stream_is_dead(http: httpx2.AsyncClient) -> None:
    over = threading.Event()

    def script(stream: Stream) -> None:
        stream.send(CONNECTED)
        over.wait(5)

    with serving(script) as server:
        http.base_url = httpx2.URL(server.url)
        try:
            async with open_events(http, silence_s=0.2) as events:
                await anext(events)
                with pytest.raises(HostCallTimeoutError, match="nothing came"):
                    await anext(events)
        finally:
            over.set()


async def test_leaving_early_closes_the_connection(http: httpx2.AsyncClient) -> None:
    closed = threading.Event()

    def script(stream: Stream) -> None:
        try:
            while True:
                stream.send(IDLE)
        except OSError:
            closed.set()

    with serving(script) as server:
        http.base_url = httpx2.URL(server.url)
        async with open_events(http) as events:
            await anext(events)
        with fail_after(5):
            left = await to_thread.run_sync(closed.wait, 5)

    assert left


@pytest.mark.parametrize(("status", "words"), [(401, "OPENCODE_SERVER_PASSWORD"), (500, "refused")])
async def test_a_refused_stream_carries_its_status(status: int, words: str, http: httpx2.AsyncClient) -> None:
    with serving(lambda _: None, status=status) as server:
        http.base_url = httpx2.URL(server.url)
        with pytest.raises(HostCallError, match=words) as caught:
            async with open_events(http):
                raise AssertionError

    assert caught.value.status == status


async def test_a_server_that_is_gone_is_an_error(http: httpx2.AsyncClient) -> None:
    with serving(lambda _: None) as server:
        http.base_url = httpx2.URL(server.url)
    with pytest.raises(HostCallError, match=server.url):
        async with open_events(http):
            raise AssertionError


async def test_an_error_of_the_listener_stays_its_own(http: httpx2.AsyncClient) -> None:
    with serving(lambda stream: stream.send(CONNECTED)) as server:
        http.base_url = httpx2.URL(server.url)
        with pytest.raises(httpx2.ReadError, match="mine"):
            async with open_events(http):
                raise httpx2.ReadError("mine")
