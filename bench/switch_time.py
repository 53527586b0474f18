"""How long from the failing answer's last byte to the fallback's request, against a bare abort and prompt.

Ours replays and, on a server of its own, answers inline; all run in the real OpenCode, one at a time, in
rounds. Some failures send a plugin no sign to act on, so the bare probe never switches; ours is then held
against the probe's time for a 429. An answer that has begun is replayed inline or not.
Inline is held against a probe that sends a refused request again without asking anybody.
Run it from the repository as ``python -m bench.switch_time [rounds]``.
"""

import os
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Final

from bench.real_host import home_with_file, home_with_ours, in_rounds
from tests.loopback.opencode_server import OpenCodeServer
from tests.loopback.provider import ScriptedProvider
from tests.loopback.reply import Close, Data, Head, Pause, Reply, cut, error_object, status, stream

BUDGET: Final = 1.5
INLINE_BUDGET_MS: Final = 30.0
WARM_UP_TURNS: Final = 2
TURNS_A_ROUND: Final = 5
LIMIT_S: Final = 10.0
PROBE: Final = Path(__file__).with_name("bare_probe.js")
INLINE_PROBE: Final = Path(__file__).with_name("bare_inline_probe.js")
# Nothing cools by itself, so that one fallback serves any number of turns.
SETTINGS: Final = """
[fallback]
cooldown = 0
fallback_models = ["fakeb/fallback-a"]

[agents.plan]
fallback_models = ["fakeb/fails-as-well", "fakeb/fallback-b"]
"""


@dataclass(frozen=True)
class Kind:
    """One kind of failure. ``name`` begins the names of its models, one a turn, since a failed one may cool.

    ``failing`` is the model whose failure is measured, None for the primary, and ``saved_by`` the one that
    answers. ``has_sign`` says whether the host shows the failure as a retry or an error, ``is_refused``
    whether it is a status, ``begun`` whether the failing answer has.
    """

    name: str
    reply: Reply
    has_sign: bool = True
    is_refused: bool = True
    begun: bool = False
    failing: str | None = None
    saved_by: str = "fallback-a"
    agent: str = "build"

    def is_tried_by(self, plugin: str) -> bool:
        """Tell whether a plugin can do anything about it."""
        return {"bare": self.has_sign, "bare inline": self.is_refused}.get(plugin, True)

    def model(self, turn: int) -> str:
        """Return the primary of a turn."""
        return f"{self.name}-{turn}"


KINDS: Final = (
    Kind("429", status(429)),
    Kind("429-in-0.2-s", (Pause(0.2), *status(429))),
    Kind("429-for-an-hour", status(429, headers={"retry-after": "3600"})),
    Kind("503", status(503)),
    Kind("401", status(401)),
    Kind("402", status(402)),
    Kind("404", status(404)),
    Kind("error-in-stream", error_object(), is_refused=False),
    Kind("429-twice", status(429), failing="fails-as-well", saved_by="fallback-b", agent="plan"),
    Kind("cut-stream", cut("Half an "), has_sign=False, is_refused=False, begun=True),
    Kind("empty-stop", stream(), has_sign=False, is_refused=False),
    Kind("done-only", (Head(), Data("[DONE]"), Close()), has_sign=False, is_refused=False),
)
PLUGINS: Final = ("bare", "ours", "inline", "bare inline")
ANSWERS: Final = {"fallback-a": "Answer of a.", "fallback-b": "Answer of b."}


@dataclass
class Figures:
    """What one plugin did about one kind: milliseconds, and requests to the failing model, of each turn.

    ``never`` is set once a turn was not saved in time; the kind is not tried again then.
    """

    milliseconds: list[float] = field(default_factory=list)
    asked: list[int] = field(default_factory=list)
    never: bool = False

    @property
    def median(self) -> float | None:
        """The median time, None if a turn was not saved."""
        return None if self.never else median(self.milliseconds)

    def __str__(self) -> str:
        """Write the median."""
        return "never" if self.median is None else f"{self.median:.1f}"


def switch(
    server: OpenCodeServer, provider: ScriptedProvider, kind: Kind, turn: int
) -> tuple[float, int] | None:
    """Run one turn; return the milliseconds between the two requests and how often the failing one came.

    None if the turn was not saved within `LIMIT_S`.
    """
    session = server.create_session()
    position = server.events.position
    server.prompt(session, "Who answers?", f"fake/{kind.model(turn)}", agent=kind.agent)
    try:
        server.wait_for_answer(session, ANSWERS[kind.saved_by], since=position, timeout_s=LIMIT_S)
    except AssertionError:
        server.abort(session)
        return None
    failed = provider.requests(kind.failing or kind.model(turn), session=session)
    assert failed[0].last_byte_at is not None
    (saved,) = provider.requests(kind.saved_by, session=session)
    return 1000 * (saved.arrived_at - failed[0].last_byte_at), len(failed)


def measure(rounds: int) -> dict[tuple[str, str], Figures]:
    """Measure each plugin on its server, turn by turn; return the figures by kind and plugin."""
    turns_a_round = WARM_UP_TURNS + TURNS_A_ROUND
    every_turn = range(rounds * turns_a_round)
    models = {
        "fake": [kind.model(turn) for kind in KINDS for turn in every_turn],
        "fakeb": ["fallback-a", "fails-as-well", "fallback-b"],
    }
    provider = ScriptedProvider({kind.model(turn): [kind.reply] for kind in KINDS for turn in every_turn})
    provider.script("fails-as-well", status(429))
    for model, text in ANSWERS.items():
        provider.script(model, stream(text))
    figures = {(kind.name, name): Figures() for kind in KINDS for name in PLUGINS}
    inline = SETTINGS.replace("[fallback]", '[fallback]\nswitching = "inline"', 1)
    with tempfile.TemporaryDirectory() as root, provider:
        homes = {
            "bare": home_with_file(Path(root, "bare"), provider, models, PROBE),
            "ours": home_with_ours(Path(root, "ours"), provider, models, SETTINGS),
            "inline": home_with_ours(Path(root, "inline"), provider, models, inline),
            "bare inline": home_with_file(Path(root, "bare-inline"), provider, models, INLINE_PROBE),
        }
        for number, name, server in in_rounds(homes, rounds):
            for turn in every_turn[number * turns_a_round :][:turns_a_round]:
                for kind in KINDS:
                    mine = figures[kind.name, name]
                    if mine.never or not kind.is_tried_by(name):
                        continue
                    found = switch(server, provider, kind, turn)
                    if found is None:
                        mine.never = True
                    elif turn % turns_a_round >= WARM_UP_TURNS:
                        mine.milliseconds.append(found[0])
                        mine.asked.append(found[1])
    return figures


def main() -> int:
    """Print the medians and their ratios; return 1 if one is over the budget or a turn was not saved."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 3
    print(f"load before: {os.getloadavg()} on {os.cpu_count()} cores")
    figures = measure(rounds)
    limit = figures[KINDS[0].name, "bare"].median
    assert limit is not None
    over = False
    print(
        f"{'failure':<18}{'bare ms':>9}{'ours ms':>9}{'ratio':>8}   {'ours from to':<14}{'asked':>6}"
        f"{'bare inline':>13}{'inline ms':>11}{'added':>7}"
        f"   medians of {rounds * TURNS_A_ROUND} turns"
    )
    for kind in KINDS:
        bare, ours = figures[kind.name, "bare"], figures[kind.name, "ours"]
        reference = bare.median if kind.has_sign else limit
        ratio = ours.median / reference if ours.median and reference else None
        over |= ratio is None or (kind.has_sign and ratio > BUDGET)
        floor, inline = figures[kind.name, "bare inline"], figures[kind.name, "inline"]
        added = inline.median - floor.median if kind.is_refused and inline.median and floor.median else None
        over |= inline.median is None or (not kind.begun and inline.median > INLINE_BUDGET_MS)
        print(
            f"{kind.name:<18}{str(bare) if kind.has_sign else '-':>9}{ours!s:>9}"
            f"{'-' if ratio is None else f'{ratio:.2f}':>8}{' ' if kind.has_sign else '*'}"
            f"  {spread(ours.milliseconds):<14}{max(ours.asked, default=0):>6}"
            f"{str(floor) if kind.is_refused else '-':>13}{inline!s:>11}"
            f"{'-' if added is None else f'{added:.1f}':>7}{'+' if kind.begun else ''}"
        )
    print(
        f"budgets: ours {BUDGET} x bare; inline {INLINE_BUDGET_MS:g} ms, a bare inline switch included: "
        "a failure that comes at once finds the host's own thread busy with the turn's beginning"
    )
    print(
        f"* no sign for the bare probe to act on: the ratio is to its 429, {limit:.1f} ms, and has no budget"
    )
    print("+ replayed, since its answer had begun: no budget")
    print("asked: most requests that the failing model got in one turn with ours")
    print(f"load after:  {os.getloadavg()}")
    return int(over)


def spread(times: Sequence[float]) -> str:
    """Write the range of some milliseconds."""
    return f"{min(times):.0f}-{max(times):.0f} ms" if times else ""


if __name__ == "__main__":
    sys.exit(main())
