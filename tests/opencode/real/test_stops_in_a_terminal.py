"""Escape in OpenCode's own terminal UI, in the moment of a switch: once it is heard no model is asked.

In the fifth of a second between the failed run and the next one the UI takes the session for idle and keeps
Escape to itself; such a key is no stop that anybody but the UI could know of.
"""

import random
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Final

import pytest

from tests.loopback.opencode_home import OpenCodeHome, provider_each, ref
from tests.loopback.opencode_terminal import OpenCodeTerminal
from tests.loopback.provider import SMALL_MODEL, Request, ScriptedProvider
from tests.loopback.reply import Gate, Reply, cut, status, stream
from tests.loopback.stop_trial import GRACE_S, WATCH_S

pytestmark = [pytest.mark.real_host, pytest.mark.timeout(240)]

FAILURES: Final[Mapping[str, Reply]] = {
    "429": status(429),
    "cut": cut("Half an answer, "),
}
STOPS_EACH: Final = 3
LONGEST_DELAY_S: Final = 0.3
HEARD: Final = "user stopped (the host was asked to stop it"


@pytest.fixture(scope="module")
def provider() -> Iterator[ScriptedProvider]:
    with ScriptedProvider({"fallback": [stream("Answer of the fallback.")]}) as provider:
        yield provider


def heard(home: OpenCodeHome) -> list[float]:
    """Return when the plugin heard of each stop, on the clock of the day."""
    lines = [line for line in home.plugin_log_file.read_text().splitlines() if HEARD in line]
    return [datetime.strptime(line[:23], "%Y-%m-%d %H:%M:%S,%f").astimezone().timestamp() for line in lines]


def asked_to_be_sure(terminal: OpenCodeTerminal, request: Request) -> bool:
    """Press Escape until the UI asks for it once more; False if one of them has stopped the turn already."""
    while not request.disconnected_at:
        terminal.press("Escape")
        with suppress(AssertionError):  # the UI takes none before it has drawn the turn's beginning
            terminal.wait_for(
                lambda screen: "again to interrupt" in screen or request.disconnected_at, timeout_s=1.0
            )
            return not request.disconnected_at
    return False


@pytest.mark.thorough
@pytest.mark.parametrize("kind", ["429", "cut"])
def test_P1_a_stop_in_the_switching_moment_is_final(
    kind: str, tmp_path: Path, opencode_binary: Path, tmux: Path, provider: ScriptedProvider
) -> None:
    """The first Escape asks to be sure while the model is held back; the second comes after its failure."""
    drawn = random.Random(kind)  # noqa: S311 -- the same moments every time are the point
    home = OpenCodeHome(tmp_path, provider, provider_each([kind, "fallback"]))
    home.install_plugin(f'[fallback]\nfallback_models = ["{ref("fallback")}"]\ncooldown = 0\n')
    late: list[float] = []
    with OpenCodeTerminal(opencode_binary, home, tmux) as terminal:
        for number in range(STOPS_EACH):
            gate = Gate()
            provider.script(kind, (gate, *FAILURES[kind]))
            asked = len(provider.requests(kind))
            terminal.prompt(f"Question {number}?")
            provider.wait_for(lambda: len(provider.requests(kind)) > asked)  # noqa: B023 -- called at once
            if not asked_to_be_sure(terminal, provider.requests(kind)[-1]):
                continue
            gate.open()
            time.sleep(drawn.uniform(0.0, LONGEST_DELAY_S))
            before, told = len(provider.requests()), len(heard(home))
            terminal.press("Escape")
            time.sleep(WATCH_S)
            since_boot_s = time.time() - time.monotonic()
            for stop in heard(home)[told:]:
                over = [
                    each.arrived_at + since_boot_s - stop
                    for each in provider.requests()[before:]
                    if each.model != SMALL_MODEL
                ]
                late += [each for each in over if each > GRACE_S]
            terminal.wait_for(lambda screen: "interrupt " not in screen)

    assert late == []
    assert heard(home), "the plugin heard of no stop at all"
