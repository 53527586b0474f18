"""What the plugin costs the real OpenCode while a healthy model streams as fast as it can.

Two servers, one without any plugin and one with ours, get the same turns in pairs, each pair in the other
order than the one before. A wall clock is noisy on a shared machine, so that the median of the pairs' ratios
comes with the interval that holds it at 95 %, and the host's own processor time is given as well. One more
server adds up what it spends inside our hook: no noise of the host's can hide or make up that share.

Run it from the repository as ``python -m bench.stream_throughput [pairs] [deltas] [rate]``. With a rate, in
deltas a second, the provider keeps to it as a real one does; without, the host itself is the limit.
"""

import gc
import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from math import comb
from pathlib import Path
from statistics import median
from typing import Final

import httpx2

from bench.process import cpu_seconds
from bench.real_host import home_with_ours, opencode
from tests.loopback.opencode_home import OpenCodeHome
from tests.loopback.opencode_server import OpenCodeServer
from tests.loopback.provider import ScriptedProvider
from tests.loopback.reply import Pause, stream

BUDGET: Final = 1.01
CONFIDENCE: Final = 0.95
WARM_UP_PAIRS: Final = 3
BATCH_S: Final = 0.02
TURN_LIMIT_S: Final = 120.0
TURNS_TIMED_INSIDE: Final = 20
TIMED_PLUGIN: Final = Path(__file__).with_name("timed_plugin.js")
MODELS: Final = {"fake": ["ok"], "fakeb": ["fallback-a"]}
SETTINGS: Final = '[fallback]\nfallback_models = ["fakeb/fallback-a"]\n'


@dataclass(frozen=True)
class Turn:
    """What one streamed answer took: seconds on the wall, and processor seconds of the host and of ours."""

    wall_s: float
    host_s: float
    ours_s: float


def stream_once(server: OpenCodeServer, deltas: int) -> Turn:
    """Run one turn in a session of its own."""
    session = server.create_session()
    child = server.python_child()
    host_s, ours_s = cpu_seconds(server.pid), cpu_seconds(child) if child else 0.0
    began = time.perf_counter()
    answer = httpx2.post(
        f"{server.url}/session/{session}/message",
        json={
            "parts": [{"type": "text", "text": "Go on."}],
            "model": {"providerID": "fake", "modelID": "ok"},
        },
        timeout=TURN_LIMIT_S,
    )
    wall_s = time.perf_counter() - began
    answer.raise_for_status()
    (text,) = (part["text"] for part in answer.json()["parts"] if part["type"] == "text")
    assert text.count("word") == deltas, f"{text.count('word')} of {deltas} deltas arrived"
    # What was heard is kept by the event log; it need not be looked through for garbage at every turn.
    gc.freeze()
    return Turn(wall_s, cpu_seconds(server.pid) - host_s, (cpu_seconds(child) if child else 0.0) - ours_s)


def script(deltas: int, rate: float) -> list[str | Pause]:
    """Return what the provider streams; it pauses after every batch, since a pause has its least length."""
    batch = max(1, round(rate * BATCH_S)) if rate else deltas
    paced: list[str | Pause] = []
    for number in range(deltas):
        paced.append(f"word{number} ")
        if rate and number % batch == batch - 1:
            paced.append(Pause(batch / rate))
    return paced


def measure(pairs: int, deltas: int, rate: float) -> list[tuple[Turn, Turn]]:
    """Return the turns without and with the plugin, pair by pair."""
    binary = opencode()
    provider = ScriptedProvider({"ok": [stream(*script(deltas, rate))]})
    measured: list[tuple[Turn, Turn]] = []
    with tempfile.TemporaryDirectory() as root, provider:
        without = OpenCodeServer(binary, OpenCodeHome(Path(root, "bare"), provider, MODELS))
        ours = OpenCodeServer(binary, home_with_ours(Path(root, "ours"), provider, MODELS, SETTINGS))
        with without, ours:
            assert ours.python_child() is not None, "the plugin does not run"
            for pair in range(WARM_UP_PAIRS + pairs):
                order = (without, ours) if pair % 2 else (ours, without)
                turns = {server: stream_once(server, deltas) for server in order}
                if pair >= WARM_UP_PAIRS:
                    measured.append((turns[without], turns[ours]))
    return measured


def share_inside(deltas: int, rate: float) -> tuple[float, float]:
    """Return the share of a turn's time that the host spends inside our hook, and microseconds an event."""
    provider = ScriptedProvider({"ok": [stream(*script(deltas, rate))]})
    with tempfile.TemporaryDirectory() as root, provider:
        home = home_with_ours(Path(root, "timed"), provider, MODELS, SETTINGS)
        folder = home.plugin_file.parent.parent
        home.plugin_file.rename(folder / "measured-plugin.js")
        shutil.copy(TIMED_PLUGIN, home.plugin_file)
        with OpenCodeServer(opencode(), home) as server:
            for _ in range(WARM_UP_PAIRS):
                stream_once(server, deltas)
            before = json.loads((folder / "spent.json").read_text())
            turns = [stream_once(server, deltas) for _ in range(TURNS_TIMED_INSIDE)]
            after = json.loads((folder / "spent.json").read_text())
    spent_ms = after["spentMs"] - before["spentMs"]
    events = after["events"] - before["events"]
    return spent_ms / 1000 / sum(turn.wall_s for turn in turns), 1000 * spent_ms / events


def interval(values: Sequence[float]) -> tuple[float, float]:
    """Return two of the values between which the true median lies with `CONFIDENCE`, whatever the noise.

    With too few values for that the smallest and the largest are returned.
    """
    ordered, count = sorted(values), len(values)
    outside = 0.0
    for left_out in range(count // 2):
        # The median misses the interval on one side if at most ``left_out`` values are on its other side.
        outside += 2 * comb(count, left_out) / 2**count
        if outside > 1 - CONFIDENCE:
            return ordered[max(0, left_out - 1)], ordered[count - max(1, left_out)]
    return ordered[0], ordered[-1]


def verdict(low: float, high: float) -> str:
    """Say what an interval proves about the budget."""
    if high <= BUDGET:
        return "within the budget"
    return "over the budget" if low > BUDGET else "too noisy to tell"


def main() -> int:
    """Print the medians, the ratio and its interval; return 1 if the plugin is proven over its budget."""
    pairs = int(sys.argv[1]) if len(sys.argv) > 1 else 40
    deltas = int(sys.argv[2]) if len(sys.argv) > 2 else 3_000  # noqa: PLR2004 -- the second argument
    rate = float(sys.argv[3]) if len(sys.argv) > 3 else 0.0  # noqa: PLR2004 -- the third
    print(f"load before: {os.getloadavg()} on {os.cpu_count()} cores")
    measured = measure(pairs, deltas, rate)
    pace = f"at {rate:,.0f} a second" if rate else "as fast as the host takes them"
    print(f"{pairs} pairs of turns with {deltas:,} deltas each, {pace}, budget {BUDGET}")
    print(f"{'':<16}{'without':>9}{'with':>9}{'ratio':>8}   95 % interval of the median ratio")
    over = False
    for name, values in {
        "wall s": [(bare.wall_s, ours.wall_s) for bare, ours in measured],
        "host's CPU s": [(bare.host_s, ours.host_s) for bare, ours in measured],
    }.items():
        ratios = [ours / bare for bare, ours in values]
        low, high = interval(ratios)
        over |= low > BUDGET
        print(
            f"{name:<16}{median(bare for bare, _ in values):>9.3f}{median(ours for _, ours in values):>9.3f}"
            f"{median(ratios):>8.3f}   {low:.3f}-{high:.3f}: {verdict(low, high)}"
        )
    without, with_ours = (median(turn.wall_s for turn in turns) for turns in zip(*measured, strict=True))
    print(f"{'deltas/s':<16}{deltas / without:>9,.0f}{deltas / with_ours:>9,.0f}")
    share, event_us = share_inside(deltas, rate)
    over |= share > BUDGET - 1
    print(
        f"inside our hook the host spends {event_us:.2f} us an event, {100 * share:.2f} % of the turn's time"
    )
    print(f"our Python end uses {1000 * median(ours.ours_s for _, ours in measured):.0f} ms of CPU a turn")
    print(f"load after:  {os.getloadavg()}")
    return int(over)


if __name__ == "__main__":
    sys.exit(main())
