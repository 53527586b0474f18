"""How long `opencode run` takes when its model fails, against a run whose model never failed.

All runs are whole processes of the real OpenCode, taken in turn, so that what else the machine does falls on
all alike. Run it from the repository as ``python -m bench.run_time [rounds]``.
"""

import os
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Final, NamedTuple

from bench.real_host import opencode
from tests.loopback.dialects import anthropic
from tests.loopback.opencode_home import OpenCodeHome, provider_each, ref
from tests.loopback.opencode_run import run
from tests.loopback.provider import ScriptedProvider
from tests.loopback.reply import cut, status, stream

NATIVE_RETRIES_S: Final = 70.0
"""What OpenCode 1.18.33 spends by itself on a model that stays rate limited; then it ends with status 1."""


class Way(NamedTuple):
    """A way for a run to end well: its first model, and whose answer that is to be."""

    name: str
    model: str
    agent: str
    answer: str


WAYS: Final = (
    Way("never failed", "well", "build", "All well."),
    Way("429, inline", "limited", "build", "Answer of a."),
    Way("503, inline", "overloaded", "build", "Answer of a."),
    Way("429, other protocol", "limited", "other", "Answer of the other."),
    Way("cut after text", "cut", "build", "Answer of a."),
    Way("known to be closed", "closed", "closed", "Answer of a."),
)
SETTINGS: Final = f"""
[fallback]
cooldown = 0
fallback_models = ["{ref("a")}"]

[agents.other]
fallback_models = ["{ref("other")}"]

[models."{ref("closed")}"]
cooldown = "1h"
"""


def main() -> int:
    """Print the medians and their ratios to a run that never failed; return 1 if a run did not end well."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 7
    binary = opencode()
    replies = {
        "well": stream("All well."),
        "limited": status(429),
        "overloaded": status(503),
        "cut": cut("Half an "),
        "closed": status(429),
        "a": stream("Answer of a."),
        "other": anthropic("Answer of the other."),
    }
    seconds: dict[Way, list[float]] = {way: [] for way in WAYS}
    print(f"load before: {os.getloadavg()} on {os.cpu_count()} cores")
    with (
        tempfile.TemporaryDirectory() as root,
        ScriptedProvider({name: [reply] for name, reply in replies.items()}) as provider,
    ):
        agents = {name: {"mode": "primary", "description": "Own chain."} for name in ("other", "closed")}
        home = OpenCodeHome(
            Path(root),
            provider,
            provider_each(replies),
            {"agent": agents},
            npm={"of-other": "@ai-sdk/anthropic"},
        )
        home.install_plugin(SETTINGS)
        for number in range(rounds + 1):  # the first one fills caches and closes what is to be closed
            for way in WAYS if number % 2 else reversed(WAYS):
                began = time.monotonic()
                done = run(binary, home, ref(way.model), "--agent", way.agent)
                if number:
                    seconds[way].append(time.monotonic() - began)
                if (done.status, done.answer) != (0, way.answer):
                    print(f"error: {way.name}: status {done.status}: {done.stdout}{done.stderr}")
                    return 1
    good = median(seconds[WAYS[0]])
    print(f"{'the run':<22}{'s':>7}{'ratio':>8}{'more s':>8}   from to     medians of {rounds} rounds")
    for way, times in seconds.items():
        middle = median(times)
        print(
            f"{way.name:<22}{middle:>7.2f}{middle / good:>8.2f}{middle - good:>8.2f}"
            f"   {min(times):.2f}-{max(times):.2f}"
        )
    print(f"without a plugin a rate limited run ends after about {NATIVE_RETRIES_S:g} s, with status 1")
    print(f"load after:  {os.getloadavg()}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
