"""One event through the engine, against the least any bridge must do with it: parse its JSON.

Plays recorded turns of the real host, healthy and failing: ``python -m bench.engine_decision``.
"""

import json
import os
import statistics
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path

from fallback_plugin.events import Event
from fallback_plugin.fallback.effects import Done
from fallback_plugin.fallback.engine import Engine
from fallback_plugin.settings import Settings
from fallback_plugin.wire.event import read_event

RECORDINGS = Path(__file__).parents[1] / "tests" / "opencode" / "recordings"
TURNS = ("ok", "tool", "429", "401", "503", "empty")
ROUNDS = 200
BUDGET_US = 20.0


def recorded_lines() -> list[str]:
    """Return the events of the turns, one JSON text each."""
    lines = (line for turn in TURNS for line in (RECORDINGS / f"{turn}.jsonl").open(encoding="utf-8"))
    return [json.dumps(entry["event"]) for entry in map(json.loads, lines) if "event" in entry]


def microseconds_each(work: Callable[[], object], count: int) -> float:
    """Return the median time of one of ``count`` items over all rounds."""
    rounds = []
    for _ in range(ROUNDS):
        begin = time.perf_counter()
        work()
        rounds.append((time.perf_counter() - begin) / count * 1e6)
    return statistics.median(rounds)


def decide(events: list[Event], settings: Settings) -> None:
    """Play events into a fresh engine, carrying all of its effects out at once."""
    engine = Engine(settings)
    for moment, event in enumerate(events):
        effects = deque(engine.handle(event, float(moment)))
        while effects:
            effects.extend(engine.finished(effects.popleft(), Done(), float(moment)))


def main() -> None:
    """Measure and print."""
    lines = recorded_lines()
    events = [read_event(json.loads(line)) for line in lines]
    settings = Settings.model_validate({"fallback": {"fallback_models": ["spare/fallback-a"]}})
    parse = microseconds_each(lambda: deque(map(json.loads, lines), maxlen=0), len(lines))
    read = microseconds_each(lambda: deque(map(read_event, map(json.loads, lines)), maxlen=0), len(lines))
    engine = microseconds_each(lambda: decide(events, settings), len(lines))
    load = os.getloadavg()[0]
    print(f"{len(lines)} events of {len(TURNS)} recorded turns, median of {ROUNDS} rounds, load {load:.1f}")
    print(f"parse the JSON       {parse:6.2f} us")
    print(f"parse and normalise  {read:6.2f} us, {read / parse:.2f} x parse")
    print(f"decide               {engine:6.2f} us, {engine / parse:.2f} x parse")
    print(f"decide / budget of {BUDGET_US:.0f} us: {engine / BUDGET_US:.2f}")


if __name__ == "__main__":
    main()
