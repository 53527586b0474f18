"""Whether a client sees the end of an answer on the event stream before its prompt's call returns.

A client such as ``opencode run --attach`` stops listening when the call returns, and prints nothing if the
end of the answer comes later. Our own host is measured against a bare uvicorn that sends as many events and
then answers, both read by the same client in the same run. It ends with 1 if our host was late once. Run it
from the repository as ``python -m bench.end_of_answer [prompts] [busy cores]``.
"""

import json
import os
import selectors
import socket
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median, quantiles
from typing import Final

from bench.call_latency import bare_uvicorn, running
from tests.loopback.agent_server import AgentHome, AgentServer
from tests.loopback.busy_cores import busy_cores
from tests.loopback.provider import ScriptedProvider
from tests.loopback.reply import stream

PROMPTS: Final = 200
END: Final = b'"session.idle"'
LIMIT_S: Final = 60.0
WORDS: Final = ("Quick ", "and ", "done.")

BARE_APP: Final = """
EVENTS = [b"data: " + b"x" * 300 + b"\\n\\n"] * 11 + [b'data: {"type": "session.idle"}\\n\\n']
listeners = []
async def app(scope, receive, send):
    if scope["path"] == "/event":
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b": hello\\n\\n", "more_body": True})
        queue = asyncio.Queue()
        listeners.append(queue)
        while True:
            await send({"type": "http.response.body", "body": await queue.get(), "more_body": True})
    while (await receive()).get("more_body"):
        pass
    for event in EVENTS:
        for queue in listeners:
            queue.put_nowait(event)
        await asyncio.sleep(0)
    headers = [(b"content-type", b"application/json"), (b"content-length", b"2")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": b"{}"})
"""


@dataclass(slots=True)
class Found:
    """By how many ms each end came before its call returned, and how many ends came after."""

    leads: list[float] = field(default_factory=list)
    late: int = 0


class Client:
    """One that listens on one connection and prompts on another."""

    def __init__(self, port: int) -> None:
        self._events = socket.create_connection(("127.0.0.1", port))
        self._events.sendall(b"GET /event HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n")
        self._calls = socket.create_connection(("127.0.0.1", port))
        self._selector = selectors.DefaultSelector()
        for connection in (self._events, self._calls):
            self._selector.register(connection, selectors.EVENT_READ)
        self._heard = b""
        while b"\n\n" not in self._heard.partition(b"\r\n\r\n")[2]:
            self._heard += self._events.recv(1 << 16)

    def close(self) -> None:
        """Close both connections."""
        self._selector.close()
        self._events.close()
        self._calls.close()

    def call(self, path: str, body: object) -> bytes:
        """Make a call and return its answer's body."""
        self._send(path, body)
        answer = b""
        while (whole := _body_of(answer)) is None:
            answer += self._read(self._calls)
        return whole

    def prompt(self, path: str, body: object, found: Found) -> None:
        """Make a call that ends an answer; note which of the two ends came first, and by how much."""
        self._heard, answer = b"", b""
        ended = returned = 0.0
        self._send(path, body)
        while not (ended and returned):
            for key, _ in self._ready():
                # The stream is looked at first: what is there when the call returns is not late.
                if key.fileobj is self._events:
                    self._heard += self._read(self._events)
                    ended = ended or (time.perf_counter() if END in self._heard else 0.0)
                elif not returned:
                    answer += self._read(self._calls)
                    returned = time.perf_counter() if _body_of(answer) is not None else 0.0
        found.leads.append(1000 * (returned - ended))
        found.late += ended > returned

    def _ready(self) -> list[tuple[selectors.SelectorKey, int]]:
        ready = self._selector.select(LIMIT_S)
        if not ready:
            raise TimeoutError("nothing came")
        return sorted(ready, key=lambda each: each[0].fileobj is not self._events)

    def _send(self, path: str, body: object) -> None:
        sent = json.dumps(body).encode()
        head = f"POST {path} HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\n"
        self._calls.sendall(head.encode() + b"content-length: %d\r\n\r\n" % len(sent) + sent)

    @staticmethod
    def _read(connection: socket.socket) -> bytes:
        piece = connection.recv(1 << 16)
        if not piece:
            raise ConnectionError("the server closed a connection")
        return piece


def _body_of(answer: bytes) -> bytes | None:
    """Return the body of a whole answer with a length, None if it is not whole."""
    head, _, body = answer.partition(b"\r\n\r\n")
    lengths = [line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
    return body if lengths and len(body) >= int(lengths[0].partition(b":")[2]) else None


def at_bare(prompts: int) -> Found:
    """Measure the bare uvicorn."""
    found = Found()
    with (
        tempfile.TemporaryDirectory() as directory,
        running(bare_uvicorn(BARE_APP), directory) as port,
    ):
        client = Client(port)
        for _ in range(prompts):
            client.prompt("/prompt", {"text": "x" * 200}, found)
        client.close()
    return found


def at_ours(prompts: int) -> Found:
    """Measure our own host, whose model answers at once; eight prompts a session."""
    found = Found()
    with (
        tempfile.TemporaryDirectory() as directory,
        ScriptedProvider({"quick": [stream(*WORDS)]}) as provider,
        AgentServer(AgentHome(Path(directory), provider, {"fake": ["quick"]})) as server,
    ):
        client = Client(int(server.url.rpartition(":")[2]))
        body = {
            "model": {"providerID": "fake", "modelID": "quick"},
            "parts": [{"type": "text", "text": "Be quick."}],
        }
        session = ""
        for number in range(prompts):
            if number % 8 == 0:
                session = json.loads(client.call("/session", {}))["id"]
            client.prompt(f"/session/{session}/message", body, found)
        client.close()
    return found


def main() -> int:
    """Print both; return 1 if an answer of our host ended after its call had returned."""
    given = list(map(int, sys.argv[1:]))
    prompts, cores = (given[0] if given else PROMPTS), (given[1] if len(given) > 1 else 0)
    print(f"load before: {os.getloadavg()} on {os.cpu_count()} cores, {cores} kept busy")
    with busy_cores(cores):
        found = {"a bare uvicorn": at_bare(prompts), "fallback-plugin serve": at_ours(prompts)}
    for name, each in found.items():
        p95 = quantiles(each.leads, n=20)[-1]
        print(
            f"{name:<24}the end came first by {median(each.leads):.2f} ms, p95 {p95:.2f}; "
            f"{each.late} of {prompts:,} came after the call's return"
        )
    print(f"load after:  {os.getloadavg()}")
    return int(found["fallback-plugin serve"].late > 0)


if __name__ == "__main__":
    sys.exit(main())
