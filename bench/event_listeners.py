"""Events to many listeners of our own host, against a bare uvicorn stream of the same bytes and pace.

Both are processes of their own, read by the same clients in the same run. Run it from the repository as
``python -m bench.event_listeners [listeners] [events]``.
"""

import asyncio
import os
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import closing
from pathlib import Path
from statistics import median
from typing import Any, Final

import anyio
import anyio.lowlevel

BUDGET: Final = 0.8
ROUNDS: Final = 4
READY: Final = "ready"
DELTA: Final = "The quick brown fox jumps over the lazy dog. "
REQUEST: Final = b"GET /event HTTP/1.1\r\nhost: localhost\r\n\r\n"


def events(count: int) -> list[Any]:
    """Return the events: growing text, as most are."""
    from fallback_plugin.agent.records import PassingEvent  # noqa: PLC0415 -- in the server only

    return [
        PassingEvent(
            session_id="ses_0123456789abcdef01234567",
            type="message.part.delta",
            properties={
                "sessionID": "ses_0123456789abcdef01234567",
                "messageID": "msg_0123456789abcdef01234567",
                "partID": "prt_0123456789abcdef01234567",
                "field": "text",
                "delta": f"{number:06} {DELTA}",
            },
        )
        for number in range(count)
    ]


async def ours(listener: socket.socket, listeners: int, count: int) -> None:
    """Serve our own host; once all listen, publish everything."""
    from fallback_plugin.agent.host import Place, open_host  # noqa: PLC0415
    from fallback_plugin.agent.http.app import application  # noqa: PLC0415
    from fallback_plugin.agent.http.guard import Rules  # noqa: PLC0415
    from fallback_plugin.agent.http.server import serve  # noqa: PLC0415
    from fallback_plugin.settings import Settings  # noqa: PLC0415

    with tempfile.TemporaryDirectory() as root:
        place = Place(data=Path(root), directory=Path(root), environ={})
        async with open_host(Settings(), place) as host, anyio.create_task_group() as tasks:
            tasks.start_soon(serve, application(host, Rules()), listener, anyio.Event())
            print(READY, flush=True)
            published = events(count)
            while host.bus.listeners < listeners:  # noqa: ASYNC110 -- nothing tells of a listener
                await anyio.sleep(0.01)
            for event in published:
                host.bus.publish(event)
                await anyio.lowlevel.checkpoint()  # everybody gets this one before the next, as in life
            await anyio.sleep_forever()


async def bare(listener: socket.socket, listeners: int, count: int) -> None:
    """Serve a bare stream: a queue for each listener, the same bytes into all of them at the same pace."""
    import uvicorn  # noqa: PLC0415

    from fallback_plugin.agent.http.frames import Frames  # noqa: PLC0415

    frames = Frames()
    written = [frames.of(event) for event in events(count)]
    queues: list[asyncio.Queue[bytes]] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:  # noqa: ANN401 -- ASGI
        del scope, receive
        headers = [(b"content-type", b"text/event-stream")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        queue: asyncio.Queue[bytes] = asyncio.Queue()
        queues.append(queue)
        if len(queues) == listeners:
            asyncio.get_running_loop().create_task(publish())
        while True:
            await send({"type": "http.response.body", "body": await queue.get(), "more_body": True})

    async def publish() -> None:
        for frame in written:
            for queue in queues:
                queue.put_nowait(frame)
            await asyncio.sleep(0)

    print(READY, flush=True)
    config = uvicorn.Config(app, http="h11", lifespan="off", log_config=None, access_log=False)
    await uvicorn.Server(config).serve(sockets=[listener])


async def listen(port: int, last: bytes, begun: asyncio.Barrier, times: list[float]) -> None:
    """Listen until the last event, and note when the first and the last came."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(REQUEST)
    await begun.wait()
    seen = b""
    first = 0.0
    while last not in seen:
        piece = await reader.read(1 << 16)
        if not piece:
            raise ConnectionError("the stream ended before its last event")
        if not first and b"delta" in piece:
            first = time.perf_counter()
        seen = (seen + piece)[-4096:]
    times.extend((first, time.perf_counter()))
    writer.close()


async def one_round(port: int, listeners: int, count: int) -> float:
    """Return how many events a second all listeners got together."""
    last = f"{count - 1:06} ".encode()
    begun = asyncio.Barrier(listeners)
    times: list[float] = []
    await asyncio.gather(*(listen(port, last, begun, times) for _ in range(listeners)))
    return listeners * count / (max(times) - min(times))


def measure(kind: str, listeners: int, count: int) -> float:
    """Run a server of one kind and return how many events a second it gave."""
    with closing(socket.socket()) as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(1024)
        listener.set_inheritable(True)
        port = listener.getsockname()[1]
        server = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "bench.event_listeners",
                kind,
                str(listener.fileno()),
                str(listeners),
                str(count),
            ],
            pass_fds=[listener.fileno()],
            stdout=subprocess.PIPE,
            text=True,
        )
        try:
            assert server.stdout is not None
            assert server.stdout.readline().strip() == READY
            return asyncio.run(one_round(port, listeners, count))
        finally:
            server.kill()
            server.wait()


def main() -> int:
    """Print what each gives and their ratio; return 1 if it is below the budget."""
    servers = {"ours": ours, "bare": bare}
    if len(sys.argv) > 1 and sys.argv[1] in servers:
        kind, *numbers = sys.argv[1:]
        anyio.run(servers[kind], socket.socket(fileno=int(numbers[0])), int(numbers[1]), int(numbers[2]))
        return 0
    given = list(map(int, sys.argv[1:]))
    listeners, count = (given[0] if given else 100), (given[1] if len(given) > 1 else 500)
    print(f"load before: {os.getloadavg()} on {os.cpu_count()} cores")
    found: dict[str, list[float]] = {"bare": [], "ours": []}
    for _ in range(ROUNDS):
        for kind, rates in found.items():
            rates.append(measure(kind, listeners, count))
    for kind, rates in found.items():
        print(
            f"{kind:<6}{median(rates):>12,.0f} events a second   from {min(rates):,.0f} to {max(rates):,.0f}"
        )
    ratio = median(found["ours"]) / median(found["bare"])
    print(f"{listeners} listeners, {count:,} events each: {ratio:.2f} of a bare stream, budget {BUDGET}")
    print(f"load after:  {os.getloadavg()}")
    return int(ratio < BUDGET)


if __name__ == "__main__":
    sys.exit(main())
