"""A stop of the user in the moment of a switch: no model is asked and no word shown afterwards."""

import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import pytest

from tests.loopback.busy_cores import busy_cores
from tests.loopback.opencode_home import provider_each, ref
from tests.loopback.opencode_server import OpenCodeServer
from tests.loopback.provider import ScriptedProvider
from tests.loopback.reply import status, stream
from tests.loopback.stop_trial import Stop, StopTrial, summary
from tests.opencode.real.conftest import StartServer

pytestmark = pytest.mark.real_host

SIGNS: Final = (429, 503, 401)
STOPS: Final = {"quiet": 150, "side by side": 150, "busy": 150, "fresh": 24}
FEW: Final = 36
LONGEST_DELAY_S: Final = 0.2
SETTINGS: Final = f'[fallback]\nfallback_models = ["{ref("fallback")}"]\ncooldown = 0\n'


def failing(kind: str, count: int) -> list[str]:
    """Name a model for each stop, so that what one of them did says nothing about another."""
    return [f"{kind.replace(' ', '-')}-{SIGNS[number % len(SIGNS)]}-{number}" for number in range(count)]


@pytest.fixture(scope="module")
def server(start_server: StartServer, provider: ScriptedProvider) -> OpenCodeServer:
    models = [name for kind, count in STOPS.items() for name in failing(kind, count)]
    models += failing("few", FEW)
    for name in models:
        provider.script(name, status(int(name.split("-")[-2])))
    provider.script("fallback", stream("Answer ", "of the fallback."))
    server = start_server(models=provider_each([*models, "fallback"]), settings=SETTINGS)
    server.warm_up(f"of-{models[0]}")
    return server


def stops(kind: str, count: int, folders: Path | None = None) -> Iterator[Stop]:
    """Draw the moments: a third at once, a third within the first 20 ms, a third anywhere up to 200 ms."""
    drawn = random.Random(kind)  # noqa: S311 -- the same moments every time are the point
    for number, model in enumerate(failing(kind, count)):
        span_s = (0.0, 0.02, LONGEST_DELAY_S)[number // len(SIGNS) % 3]
        folder = folders / str(number) if folders else None
        if folder is not None:
            folder.mkdir()
        yield Stop(ref(model), drawn.uniform(0.0, span_s), folder)


def assert_all_kept(
    server: OpenCodeServer, provider: ScriptedProvider, wanted: Sequence[Stop], side_by_side: int
) -> None:
    outcomes = StopTrial(server.url, provider).run(wanted, side_by_side=side_by_side)

    assert len(outcomes) == len(wanted)
    assert all(outcome.is_kept for outcome in outcomes), summary(outcomes)


def test_P1_a_stop_in_the_switching_moment_is_final(
    server: OpenCodeServer, provider: ScriptedProvider
) -> None:
    assert_all_kept(server, provider, list(stops("few", FEW)), side_by_side=6)


@pytest.mark.thorough
@pytest.mark.timeout(600)
@pytest.mark.parametrize("kind", STOPS)
def test_P1_hundreds_of_stops_are_final(
    kind: str, server: OpenCodeServer, provider: ScriptedProvider, tmp_path: Path
) -> None:
    """Try them few or many at a time, with both cores busy, and in folders that are new to the host."""
    wanted = list(stops(kind, STOPS[kind], tmp_path if kind == "fresh" else None))
    side_by_side = {"quiet": 2, "side by side": 8, "busy": 8, "fresh": 3}[kind]
    if kind == "busy":
        with busy_cores(2):
            assert_all_kept(server, provider, wanted, side_by_side)
    else:
        assert_all_kept(server, provider, wanted, side_by_side)
