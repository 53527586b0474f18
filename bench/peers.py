"""How the published plugins carry a failed turn on, against ours, in the real OpenCode, in rounds.

The peers are installed outside this repository, since they bring 300 packages along:
``npm install --ignore-scripts oh-my-openagent@4.19.4 oh-my-opencode-slim@2.2.24``.
Each has the settings of its own schema, without a cooldown, so that one chain serves any number of turns.
Ours remembers what a refusal closed all the same: each of its turns begins with a model of its own.
Run it from the repository as ``python -m bench.peers FOLDER [rounds]``, with the folder of that install.
"""

import json
import os
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any, Final

from bench.real_host import home_with_file, home_with_ours, in_rounds
from bench.switch_time import KINDS, PROBE
from tests.loopback.opencode_home import OpenCodeHome
from tests.loopback.opencode_server import OpenCodeServer
from tests.loopback.provider import ScriptedProvider
from tests.loopback.reply import Reply, stream

LIMIT_S: Final = 12.0
WARM_UP_TURNS: Final = 2
TURNS_A_ROUND: Final = 5
PRIMARY: Final = "primary"
FALLBACK: Final = "fallback-a"
"""The bare probe knows this name."""
ANSWER: Final = "Answer of the fallback."
FAILURES: Final[Mapping[str, Reply]] = {
    kind.name: kind.reply for kind in KINDS if kind.failing is None and kind.name != "429-in-0.2-s"
}
SETTINGS: Final = f"""
[fallback]
cooldown = 0
fallback_models = ["fakeb/{FALLBACK}"]
"""

Models = Mapping[str, Sequence[str]]
MakeHome = Callable[[Path, ScriptedProvider], OpenCodeHome]


@dataclass(frozen=True)
class Plugin:
    """One of those that are compared. ``agent`` is whose chain it was given."""

    name: str
    make_home: MakeHome
    agent: str = "build"
    remembers: bool = False

    def primary(self, failure: str, turn: int) -> str:
        """Return the model a turn begins with."""
        return f"{failure}-{turn}" if self.remembers else PRIMARY


@dataclass
class Figures:
    """What one plugin did about one failure: milliseconds of each turn it saved, and what it did not."""

    milliseconds: list[float] = field(default_factory=list)
    asked: int = 0
    lost: bool = False

    def __str__(self) -> str:
        """Write the median, and how often the failing model was asked in one turn if that was not once."""
        if self.lost or not self.milliseconds:
            return "never"
        return f"{median(self.milliseconds):.0f}" + (f" ({self.asked} x)" if self.asked > 1 else "")


def with_package(entry: Path, models: Models, files: Mapping[str, Any]) -> MakeHome:
    """Make homes with an installed package; ``files`` are its settings, by their place in the home."""

    def make(root: Path, provider: ScriptedProvider) -> OpenCodeHome:
        home = OpenCodeHome(root, provider, models, {"plugin": [entry.as_uri()]})
        for name, content in files.items():
            file = root / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(json.dumps(content))
        return home

    return make


def plugins(packages: Path, models: Models) -> Sequence[Plugin]:
    """Return all of them; the peers are found in ``packages``, a folder ``node_modules``."""
    omo = {
        "runtime_fallback": {"enabled": True, "cooldown_seconds": 0},
        "agents": {"build": {"model": f"fake/{PRIMARY}", "fallback_models": [f"fakeb/{FALLBACK}"]}},
        "sisyphus_agent": {"disabled": True},
    }
    # It rewrites settings of an older form into one that its fallback does not read; these pass for new.
    rewritten = ["2026-07-opencode-config-unification", "2026-08-reasoning-unification"]
    slim = {
        "fallback": {"enabled": True, "maxRetries": 0},
        "agents": {"orchestrator": {"model": [f"fake/{PRIMARY}", f"fakeb/{FALLBACK}"]}},
        "autoUpdate": False,
    }
    inline = SETTINGS.replace("[fallback]", '[fallback]\nswitching = "inline"')
    return (
        Plugin("bare", lambda root, provider: home_with_file(root, provider, models, PROBE), remembers=True),
        Plugin(
            "ours", lambda root, provider: home_with_ours(root, provider, models, SETTINGS), remembers=True
        ),
        Plugin(
            "inline", lambda root, provider: home_with_ours(root, provider, models, inline), remembers=True
        ),
        Plugin(
            "omo",
            with_package(
                packages / "oh-my-openagent" / "dist" / "index.js",
                models,
                {".omo/omo.jsonc": {"[opencode]": omo, "_migrations": rewritten}},
            ),
        ),
        Plugin(
            "slim",
            with_package(
                packages / "oh-my-opencode-slim" / "dist" / "index.js",
                models,
                {"config/opencode/oh-my-opencode-slim.json": slim},
            ),
            agent="orchestrator",
        ),
    )


def run_turn(
    server: OpenCodeServer, provider: ScriptedProvider, primary: str, agent: str, figures: Figures
) -> None:
    """Run one turn whose first model fails, and add to ``figures`` what came of it."""
    session = server.create_session()
    position = server.events.position
    server.prompt(session, "Who answers?", f"fake/{primary}", agent=agent)
    try:
        server.wait_for_answer(session, ANSWER, since=position, timeout_s=LIMIT_S)
    except AssertionError:
        server.abort(session)
        figures.lost = True
        return
    failed = provider.requests(primary, session=session)
    assert failed[0].last_byte_at is not None
    saved = provider.requests(FALLBACK, session=session)[0]
    figures.milliseconds.append(1000 * (saved.arrived_at - failed[0].last_byte_at))
    figures.asked = max(figures.asked, len(failed))


def measure(packages: Path, rounds: int) -> dict[str, dict[str, Figures]]:
    """Run each failure with each plugin, turn by turn; return the figures by failure and plugin."""
    turns_a_round = WARM_UP_TURNS + TURNS_A_ROUND
    every_turn = range(rounds * turns_a_round)
    primaries = [PRIMARY, *(f"{name}-{turn}" for name in FAILURES for turn in every_turn)]
    compared = {plugin.name: plugin for plugin in plugins(packages, {"fake": primaries, "fakeb": [FALLBACK]})}
    figures = {failure: {name: Figures() for name in compared} for failure in FAILURES}
    provider = ScriptedProvider({FALLBACK: [stream(ANSWER)]})
    with tempfile.TemporaryDirectory() as root, provider:
        homes = {name: plugin.make_home(Path(root, name), provider) for name, plugin in compared.items()}
        for number, name, server in in_rounds(homes, rounds):
            for turn in every_turn[number * turns_a_round :][:turns_a_round]:
                for failure, reply in FAILURES.items():
                    mine, primary = figures[failure][name], compared[name].primary(failure, turn)
                    provider.script(primary, reply)
                    if not mine.lost:
                        run_turn(server, provider, primary, compared[name].agent, mine)
            # The first turns of a server load what its later ones have.
            for row in figures.values():
                first = number * TURNS_A_ROUND
                del row[name].milliseconds[first : first + WARM_UP_TURNS]
    return figures


def main() -> int:
    """Print the medians; return 1 if a turn of ours was not saved, or a peer saved one sooner."""
    if len(sys.argv) == 1:
        sys.exit(f"error: name the folder where the peers are installed\n\n{__doc__}")
    packages = Path(sys.argv[1]) / "node_modules"
    rounds = int(sys.argv[2]) if sys.argv[2:] else 2
    print(f"load before: {os.getloadavg()} on {os.cpu_count()} cores")
    figures = measure(packages.resolve(), rounds)
    print(
        f"{'failure':<18}"
        + "".join(f"{name:>12}" for name in figures["429"])
        + f"   medians of {rounds * TURNS_A_ROUND} turns"
    )
    beaten = False
    for name, row in figures.items():
        print(f"{name:<18}" + "".join(f"{each!s:>12}" for each in row.values()))
        saved = [median(row[peer].milliseconds) for peer in ("omo", "slim") if not row[peer].lost]
        beaten |= row["ours"].lost or any(median(row["ours"].milliseconds) > peer for peer in saved)
    print("from the failing answer's last byte to the next model's request at the provider")
    print(f"never: not answered within {LIMIT_S:g} s in some turn; (n x): requests to the failed model")
    print(f"load after:  {os.getloadavg()}")
    return int(beaten)


if __name__ == "__main__":
    sys.exit(main())
