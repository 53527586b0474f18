"""How long our own host takes from its start until it listens, against a bare Python and a bare uvicorn.

Compiled modules are used, as after an installation. Run it from the repository as
``python -m bench.serve_start``.
"""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Final

ROUNDS: Final = 9
BARE_UVICORN: Final = """
import asyncio, socket, uvicorn
listener = socket.socket()
listener.bind(("127.0.0.1", 0))
listener.listen()
async def app(scope, receive, send): pass
class Server(uvicorn.Server):
    async def startup(self, sockets=None):
        await super().startup(sockets)
        print("listening", flush=True)
config = uvicorn.Config(app, http="h11", lifespan="off", log_config=None)
asyncio.run(Server(config).serve(sockets=[listener]))
"""


def first_line(command: Sequence[str], directory: Path, environment: dict[str, str]) -> float:
    """Return the seconds until a command has written its first line, or has ended."""
    began = time.perf_counter()
    process = subprocess.Popen(
        command, cwd=directory, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    assert process.stdout is not None
    process.stdout.readline()
    took = time.perf_counter() - began
    process.kill()
    process.wait()
    process.stdout.close()
    return took


def main() -> int:
    """Print the medians."""
    print(f"load before: {os.getloadavg()} on {os.cpu_count()} cores")
    python = sys.executable
    with tempfile.TemporaryDirectory() as root:
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        environment |= {"HOME": root, "XDG_CONFIG_HOME": root, "XDG_DATA_HOME": root, "XDG_STATE_HOME": root}
        commands = {
            "a bare interpreter": [python, "-c", "print()"],
            "a bare uvicorn": [python, "-c", BARE_UVICORN],
            "fallback-plugin serve": [python, "-m", "fallback_plugin", "serve", "--port", "0"],
        }
        for command in commands.values():
            first_line(command, Path(root), environment)  # compiles
        times: dict[str, list[float]] = {name: [] for name in commands}
        for _ in range(ROUNDS):
            for name, command in commands.items():
                times[name].append(1000 * first_line(command, Path(root), environment))
    reference = median(times["a bare uvicorn"])
    for name, found in times.items():
        print(
            f"{name:<24}{median(found):8.0f} ms   from {min(found):.0f} to {max(found):.0f}"
            f"   {median(found) / reference:5.2f} x a bare uvicorn"
        )
    print(f"load after:  {os.getloadavg()}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
