"""A stop in the moment of a switch: nothing is asked or said afterwards, and the next message is answered.

With ``STOP_TRIAL_TIMES=5`` in the environment the thorough tests try over 500 stops.
"""

import os
import random
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from itertools import product
from pathlib import Path
from typing import Final

import pytest

from tests.loopback.busy_cores import busy_cores
from tests.loopback.opencode_home import OpenCodeHome, provider_each, ref
from tests.loopback.opencode_server import OpenCodeServer
from tests.loopback.provider import ScriptedProvider
from tests.loopback.reply import Reply, cut, done_only, error_object, status, stream
from tests.loopback.stop_trial import Sign, Stop, StopTrial, summary
from tests.opencode.real.conftest import StartServer

pytestmark = pytest.mark.real_host

SHOWN: Final[Mapping[str, Reply]] = {"429": status(429), "503": status(503), "401": status(401)}
"""Failures that the host shows by an event of their own."""
FAILURES: Final[Mapping[str, Reply]] = {
    **SHOWN,
    "404": status(404),
    "broken": error_object("Half an answer, "),
    "cut": cut("Half an answer, "),
    "empty": stream(),
    "done": done_only(),
}
SIGNS: Final[Mapping[Sign, Sequence[str]]] = {
    "shown": list(SHOWN),
    "answered": list(FAILURES),
    "told": list(FAILURES),
    "idle": ["401", "404", "broken", "empty", "done"],
}
KINDS: Final[Sequence[tuple[Sign, str]]] = [(sign, kind) for sign, kinds in SIGNS.items() for kind in kinds]
TIMES: Final = int(os.environ.get("STOP_TRIAL_TIMES", "1"))
STOPS: Final = {
    "quiet": 12 * TIMES,
    "side by side": 72 * TIMES,
    "busy": 20 * TIMES,
    "fresh": 8 * TIMES,
    "few": len(KINDS) // 2,
    "messages": 8 * TIMES,
    "many messages": 24 * TIMES,
}
SIDE_BY_SIDE: Final = {
    "quiet": 1,
    "side by side": 8,
    "busy": 8,
    "fresh": 3,
    "few": 6,
    "messages": 4,
    "many messages": 4,
}
LONGEST_DELAY_S: Final = 0.7
NEXT_AFTER_S: Final = (None, None, 0.0, 0.02, 0.1)
"""When the user's next message comes after a stop; often there is none."""
AGAIN_AFTER_S: Final = (None, 0.0, 0.02, 0.1)
"""When that message is stopped in its turn, if at all."""
LAST_AFTER_S: Final = (None, 0.0)
"""When one more message comes after that stop."""
AGENTS: Final = ("build", "brief")
TITLES: Final = (None, "Stopped")
WAYS: Final = ("auto", "inline", "replay")
SETTINGS: Final = f'[fallback]\nfallback_models = ["{ref("fallback")}"]\ncooldown = 0\n'


def kind_of(number: int) -> tuple[Sign, str]:
    """Return the sign and the failure of a stop; those of any few in a row differ in both."""
    return KINDS[number * 7 % len(KINDS)]


def failing(trial: str, count: int) -> list[str]:
    """Name a model for each stop, so that what one of them did says nothing about another."""
    words = trial.replace(" ", "-")
    return [f"{words}-{kind_of(number)[1]}-{number}" for number in range(count)]


def with_repository(home: OpenCodeHome) -> None:
    """Make the project a git repository: only there the host takes a snapshot before and after each step."""
    subprocess.run(["git", "init", "-q", home.directory], check=True)  # noqa: S607 -- whichever it is


@pytest.fixture(scope="module")
def server(start_server: StartServer, provider: ScriptedProvider) -> OpenCodeServer:
    models = [name for trial, count in STOPS.items() for name in failing(trial, count)]
    for name in models:
        provider.script(name, FAILURES[name.split("-")[-2]])
    provider.script("fallback", stream("Answer ", "of the fallback."))
    server = start_server(
        models=provider_each([*models, "fallback"]),
        settings=SETTINGS,
        config={"agent": {"brief": {"mode": "primary", "prompt": "You are brief."}}},
        prepare=with_repository,
    )
    server.warm_up(f"of-{models[0]}")
    return server


@pytest.fixture(scope="module")
def of_each_way(tmp_path_factory: pytest.TempPathFactory) -> Sequence[Path]:
    """Return a project for each way of switching."""
    folders = [tmp_path_factory.mktemp(way) for way in WAYS]
    for folder, way in zip(folders, WAYS, strict=True):
        (folder / "fallback.toml").write_text(f'[fallback]\nswitching = "{way}"\n')
    return folders


def stops(trial: str, folders: Sequence[Path | None]) -> Iterator[Stop]:
    """Draw the moments: a third at once, a third within the first 20 ms, a third anywhere up to 700 ms."""
    drawn = random.Random(trial)  # noqa: S311 -- the same moments every time are the point
    shapes = list(product(AGENTS, TITLES))
    for number, model in enumerate(failing(trial, STOPS[trial])):
        span_s = drawn.choice((0.0, 0.02, LONGEST_DELAY_S))
        folder = folders[number % len(folders)]
        agent, title = drawn.choice(shapes)
        sign = kind_of(number)[0]
        delay_s = drawn.uniform(0.0, span_s)
        if "messages" in trial:
            yield Stop(ref(model), delay_s, folder, sign, agent, title, 0.0, is_stopped=False)
            continue
        next_after_s, again_after_s = drawn.choice(NEXT_AFTER_S), drawn.choice(AGAIN_AFTER_S)
        last_after_s = drawn.choice(LAST_AFTER_S)
        if next_after_s is None:
            again_after_s = None
        yield Stop(ref(model), delay_s, folder, sign, agent, title, next_after_s, again_after_s, last_after_s)


def assert_all_kept(
    server: OpenCodeServer, provider: ScriptedProvider, trial: str, folders: Sequence[Path | None] = (None,)
) -> None:
    outcomes = StopTrial(server.url, provider).run(
        list(stops(trial, folders)), side_by_side=SIDE_BY_SIDE[trial]
    )

    assert len(outcomes) == STOPS[trial]
    assert all(outcome.is_kept for outcome in outcomes), summary(outcomes)


def test_P1_a_stop_in_the_switching_moment_is_final(
    server: OpenCodeServer, provider: ScriptedProvider
) -> None:
    assert_all_kept(server, provider, "few")


@pytest.mark.timeout(600 * TIMES)
@pytest.mark.parametrize("trial", ["messages", pytest.param("many messages", marks=pytest.mark.thorough)])
def test_P2_a_message_in_the_switching_moment_is_answered(
    trial: str, server: OpenCodeServer, provider: ScriptedProvider, of_each_way: Sequence[Path]
) -> None:
    assert_all_kept(server, provider, trial, of_each_way)


@pytest.mark.thorough
@pytest.mark.timeout(600 * TIMES)
@pytest.mark.parametrize("trial", ["quiet", "side by side", "busy", "fresh"])
def test_P1_hundreds_of_stops_are_final(
    trial: str,
    server: OpenCodeServer,
    provider: ScriptedProvider,
    of_each_way: Sequence[Path],
    tmp_path: Path,
) -> None:
    """Try them one or many at a time, with both cores busy, and in folders that are new to the host."""
    fresh = [tmp_path / str(number) for number in range(STOPS[trial])] if trial == "fresh" else []
    for folder in fresh:
        folder.mkdir()
    folders: Mapping[str, Sequence[Path]] = {"side by side": of_each_way, "fresh": fresh}
    with busy_cores(2) if trial == "busy" else nullcontext():
        assert_all_kept(server, provider, trial, folders.get(trial, (None,)))
