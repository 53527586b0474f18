"""How long a call on a kept-alive connection takes at our own host, against a bare uvicorn.

Both are processes of their own, asked by the same client in the same run for a few bytes. The first calls of
a connection are left out: a kernel acknowledges those at once, and hides what a delayed acknowledgement
costs. Run it from the repository as ``python -m bench.call_latency [calls]``.
"""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.client import HTTPConnection
from statistics import median, quantiles
from typing import Final

BUDGET: Final = 2.5
CALLS: Final = 200
LEFT_OUT: Final = 20
ROUNDS: Final = 4
PATH: Final = "/session/status"
ANNOUNCEMENT: Final = "listening on "

BARE_APP: Final = """
async def app(scope, receive, send):
    headers = [(b"content-type", b"application/json"), (b"content-length", b"2")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": b"{}"})
"""
_BARE_UVICORN: Final = """
import asyncio, uvicorn
{app}
class Server(uvicorn.Server):
    async def startup(self, sockets=None):
        await super().startup(sockets)
        port = self.servers[0].sockets[0].getsockname()[1]
        print(f"listening on http://127.0.0.1:{{port}}", flush=True)
config = uvicorn.Config(app, port=0, http="h11", lifespan="off", log_config=None, access_log=False)
asyncio.run(Server(config).serve())
"""


def bare_uvicorn(app: str) -> list[str]:
    """Return the command of a bare uvicorn that serves the ASGI function ``app``, given as source."""
    return [sys.executable, "-c", _BARE_UVICORN.format(app=app)]


@contextmanager
def running(command: Sequence[str], directory: str) -> Iterator[int]:
    """Run a server and yield its port."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    environment |= {"HOME": directory}
    environment |= {f"XDG_{name}_HOME": directory for name in ("CONFIG", "DATA", "STATE", "CACHE")}
    server = subprocess.Popen(
        command,
        cwd=directory,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert server.stdout is not None
    try:
        while ANNOUNCEMENT not in (line := server.stdout.readline()):
            assert line, "the server ended before it listened"
        yield int(line.rpartition(":")[2])
    finally:
        server.kill()
        server.wait()
        server.stdout.close()


def latencies(port: int, calls: int) -> list[float]:
    """Return the milliseconds that each call of one connection took."""
    connection = HTTPConnection("127.0.0.1", port)
    times = []
    for _ in range(LEFT_OUT + calls):
        began = time.perf_counter()
        connection.request("GET", PATH)
        assert connection.getresponse().read() == b"{}"
        times.append(1000 * (time.perf_counter() - began))
    connection.close()
    return times[LEFT_OUT:]


def main() -> int:
    """Print the medians and their ratio; return 1 if it is above the budget."""
    calls = int(sys.argv[1]) if len(sys.argv) > 1 else CALLS
    commands = {
        "a bare uvicorn": bare_uvicorn(BARE_APP),
        "fallback-plugin serve": [sys.executable, "-m", "fallback_plugin", "serve", "--port", "0"],
    }
    found: dict[str, list[float]] = {name: [] for name in commands}
    print(f"load before: {os.getloadavg()} on {os.cpu_count()} cores")
    for _ in range(ROUNDS):
        for name, command in commands.items():
            with tempfile.TemporaryDirectory() as directory, running(command, directory) as port:
                found[name] += latencies(port, calls)
    for name, times in found.items():
        p95 = quantiles(times, n=20)[-1]
        print(f"{name:<24}{median(times):8.2f} ms   p95 {p95:.2f}   most {max(times):.2f}")
    ratio = median(found["fallback-plugin serve"]) / median(found["a bare uvicorn"])
    print(f"{calls:,} calls of {ROUNDS} connections each: {ratio:.1f} x a bare uvicorn, budget {BUDGET}")
    print(f"load after:  {os.getloadavg()}")
    return int(ratio > BUDGET)


if __name__ == "__main__":
    sys.exit(main())
