"""A thousand sessions of our own host that stream at once, against asking the same provider without a host.

The provider sends each answer in pieces, over seconds; it and the client are this process, the host is
another. Run it from the repository as ``python -m bench.streaming_sessions [sessions]``.
"""

import asyncio
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Final

import httpx2

from tests.loopback.agent_server import AgentHome, AgentServer
from tests.loopback.provider import ScriptedProvider
from tests.loopback.reply import Pause, stream

PIECES: Final = 20
EVERY_S: Final = 0.25
LIMIT_S: Final = 300.0
PROMPT: Final = {
    "parts": [{"type": "text", "text": "Say it."}],
    "model": {"providerID": "fake", "modelID": "m"},
}
REQUEST: Final = {"model": "m", "stream": True, "messages": [{"role": "user", "content": "Say it."}]}


async def without_a_host(provider: ScriptedProvider, sessions: int) -> float:
    """Ask the provider as often and read every answer to its end; return the seconds."""
    limits = httpx2.Limits(max_connections=None, max_keepalive_connections=0)
    async with httpx2.AsyncClient(base_url=provider.url, limits=limits, timeout=LIMIT_S) as client:
        began = time.perf_counter()

        async def ask() -> None:
            async with client.stream("POST", "/chat/completions", json=REQUEST) as response:
                async for _ in response.aiter_lines():
                    pass

        await asyncio.gather(*(ask() for _ in range(sessions)))
        return time.perf_counter() - began


async def through_the_host(server: AgentServer, sessions: int) -> tuple[float, int]:
    """Prompt as many sessions and wait for all ends; return the seconds and how many events there were."""
    limits = httpx2.Limits(max_connections=50)
    async with httpx2.AsyncClient(base_url=server.url, limits=limits, timeout=LIMIT_S) as client:
        created = [(await client.post("/session", json={"title": "T"})).json()["id"] for _ in range(sessions)]
        ended = asyncio.create_task(listen(server.url, sessions))
        await asyncio.sleep(0.5)  # the listener is there before the first prompt
        began = time.perf_counter()

        async def prompt(session: str) -> None:
            (await client.post(f"/session/{session}/prompt_async", json=PROMPT)).raise_for_status()

        await asyncio.gather(*map(prompt, created))
        events = await ended
        return time.perf_counter() - began, events


async def listen(url: str, runs: int) -> int:
    """Listen until all runs have ended; return how many events came."""
    count = 0
    async with (
        httpx2.AsyncClient(timeout=LIMIT_S) as client,
        client.stream("GET", f"{url}/event") as response,
    ):
        async for line in response.aiter_lines():
            count += line.startswith("data:")
            runs -= '"type":"run.ended"' in line
            if runs == 0:
                break
    return count


def resources(pid: int) -> tuple[float, float]:
    """Return the processor seconds and the MiB of a process."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    ticks = int(fields[11]) + int(fields[12])
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return ticks / os.sysconf("SC_CLK_TCK"), pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def main() -> int:
    """Print the figures."""
    sessions = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    print(f"load before: {os.getloadavg()} on {os.cpu_count()} cores")
    pieces: list[Any] = [each for number in range(PIECES) for each in (f"piece {number} ", Pause(EVERY_S))]
    with (
        tempfile.TemporaryDirectory() as root,
        ScriptedProvider({"m": [stream(*pieces)]}) as provider,
    ):
        settings = "[fallback]\nenabled = false\n"
        with AgentServer(AgentHome(Path(root), provider, {"fake": ["m"]}, settings)) as server:
            asyncio.run(through_the_host(server, 5))  # imports
            cpu_before, memory_before = resources(server.pid)
            took, events = asyncio.run(through_the_host(server, sessions))
            cpu, memory = resources(server.pid)
        bare = asyncio.run(without_a_host(provider, sessions))
    print(
        f"{sessions} sessions, {PIECES} pieces each over {PIECES * EVERY_S:g} s at least: {took:.1f} s, "
        f"{took / bare:.2f} x asking the provider without a host ({bare:.1f} s)"
    )
    print(f"{events:,} events at a listener, {events / took:,.0f} a second")
    print(
        f"host: {cpu - cpu_before:.1f} s of processor, {memory:.0f} MiB, "
        f"{1024 * (memory - memory_before) / sessions:.0f} KiB more a session"
    )
    print(f"load after:  {os.getloadavg()}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
