"""What attach spends on an event, against the least it must do with it: parse its JSON.

A fake server on loopback streams recorded healthy turns, each with ids of its own, to ``fallback-plugin
attach`` in a process of its own: ``python -m bench.attach_cpu``.
"""

import asyncio
import json
import os
import re
import sys
import tempfile
import time
from collections import deque
from pathlib import Path

from bench.process import cpu_seconds, resident_bytes
from tests.attach.fake_server import FakeOpenCode, failing_turn

RECORDINGS = Path(__file__).parents[1] / "tests" / "opencode" / "recordings"
TURNS = ("ok", "tool")
EVENTS = 60_000
ROUNDS = 3
BATCH = 200
IDS = re.compile(r"\b(ses|msg|prt|evt)_\w+")


def recorded_turn() -> list[str]:
    """Return the events of the turns, one JSON text each."""
    lines = (line for turn in TURNS for line in (RECORDINGS / f"{turn}.jsonl").open(encoding="utf-8"))
    return [json.dumps(entry["event"]) for entry in map(json.loads, lines) if "event" in entry]


def many_turns(turn: list[str]) -> list[str]:
    """Repeat the turn with other ids each time, up to the number of events."""
    return [IDS.sub(rf"\g<0>{number:06}", line) for number in range(EVENTS // len(turn)) for line in turn]


async def send_all(server: FakeOpenCode, lines: list[str], *, session_id: str) -> None:
    """Send the events and behind them a failing turn; return when that was answered."""
    for begin in range(0, len(lines), BATCH):
        await server.send_lines(lines[begin : begin + BATCH])
    await server.send(*failing_turn(session_id, f"{session_id}/m"))
    await server.wait_for_call(f"/session/{session_id}/abort", within_s=120)


async def measure(lines: list[str], home: Path) -> tuple[float, float]:
    """Return the processor time of all events, and by how much the process grew, in MB."""
    (home / "fallback.toml").write_text('[fallback]\nfallback_models = ["spare/a"]\n')
    async with FakeOpenCode(directory=str(home)) as server:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            *("-m", "fallback_plugin", "attach", server.url, "--config", str(home / "fallback.toml")),
            env={**os.environ, "HOME": str(home), "XDG_STATE_HOME": str(home), "XDG_CONFIG_HOME": str(home)},
            stderr=asyncio.subprocess.DEVNULL,
        )
        try:
            await send_all(server, lines[:1000], session_id="ses_warm")
            cpu, memory = cpu_seconds(process.pid), resident_bytes(process.pid)
            await send_all(server, lines, session_id="ses_last")
            cpu, memory = cpu_seconds(process.pid) - cpu, resident_bytes(process.pid) - memory
        finally:
            process.terminate()
            await process.wait()
    return cpu, memory / 1e6


def parse_seconds(lines: list[str]) -> float:
    """Return the processor time of parsing the events and nothing else."""
    begin = time.process_time()
    deque(map(json.loads, lines), maxlen=0)
    return time.process_time() - begin


def compare(name: str, lines: list[str]) -> None:
    """Measure one mix of events and print its row: the round with the median ratio."""
    thousands = len(lines) / 1000
    rounds = []
    for _ in range(ROUNDS):
        parse_ms = parse_seconds(lines) / thousands * 1000
        with tempfile.TemporaryDirectory() as home:
            cpu_s, grown = asyncio.run(measure(lines, Path(home)))
        attach_ms = cpu_s / thousands * 1000
        rounds.append((attach_ms / parse_ms, parse_ms, attach_ms, grown))
    ratio, parse_ms, attach_ms, grown = sorted(rounds)[ROUNDS // 2]
    print(f"{name:<15}{len(lines):>8,}{parse_ms:>10.1f}{attach_ms:>10.1f}{ratio:>8.1f}{grown:>10.0f}")


def main() -> None:
    """Measure and print."""
    turn = recorded_turn()
    deltas = [line for line in turn if '"message.part.delta"' in line]
    print(f"ms of processor time per 1,000 events, median of {ROUNDS} rounds, load {os.getloadavg()[0]:.1f}")
    print(f"{'events':<15}{'count':>8}{'parse':>10}{'attach':>10}{'ratio':>8}{'grown MB':>10}")
    compare("whole turns", many_turns(turn))
    compare("streamed text", deltas * (EVENTS // len(deltas)))


if __name__ == "__main__":
    main()
