"""The same sequence through OpenCode's adapter, ``attach`` and our own host ends alike, step by step."""

import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import pytest

from tests.doors.differences import differences
from tests.doors.door import DOORS, Door
from tests.doors.observation import Observation
from tests.doors.sequences import (
    Behaviour,
    Change,
    Clear,
    Expire,
    Prompt,
    Restart,
    Step,
    Stop,
    World,
    draw,
)
from tests.loopback.provider import ScriptedProvider
from tests.loopback.reply import Reply, cut, hang, status, stream

pytestmark = [pytest.mark.real_host, pytest.mark.thorough, pytest.mark.timeout(150)]

SEEDS: Final = range(2)
STEPS: Final = 8
AGREE_WITHIN_S: Final = 8.0
QUIET_S: Final = 0.3
"""What is the same twice, this long apart, is not on its way any more."""

HALF: Final = "Half "


@pytest.fixture
def doors(tmp_path: Path, opencode_binary: Path) -> Iterator[tuple[ScriptedProvider, list[Door]]]:
    with ScriptedProvider() as provider, ExitStack() as running, ThreadPoolExecutor() as pool:
        made = [door(tmp_path / door.name, provider, opencode_binary) for door in DOORS]
        yield provider, list(pool.map(running.enter_context, made))


@pytest.mark.parametrize("seed", SEEDS)
def test_a_sequence_ends_alike_at_every_door(doors: tuple[ScriptedProvider, list[Door]], seed: int) -> None:
    provider, opened = doors
    steps = draw(seed, STEPS)
    with ThreadPoolExecutor() as pool:
        for number, step in enumerate(steps, 1):
            if isinstance(step, Prompt | Stop):
                script(provider, step.world, number)
            for door in opened:
                door.begin_step()
            try:
                list(pool.map(lambda door, step=step, number=number: take(door, step, number), opened))
            except AssertionError as error:
                pytest.fail(report(seed, steps[:number], [str(error)], opened))
            seen, lines = agreed(opened, step)
            if lines:
                pytest.fail(report(seed, steps[:number], lines, opened))
            print(f"seed {seed}, step {number}: {step}\n    {seen}")  # noqa: T201 -- shown if a later step fails
        assert len({door.reported_health() for door in opened}) == 1
        assert len({door.transcript() for door in opened}) == 1


def script(provider: ScriptedProvider, world: World, number: int) -> None:
    """Let each model do from now on what the world says."""
    for model, behaviour in world.items():
        provider.script(model, reply(behaviour, f"Answer {number} of {model}."))


def reply(behaviour: Behaviour, answer: str) -> Reply:
    """Return what a provider does with a request."""
    replies: Mapping[Behaviour, Reply] = {
        "answers": stream(answer),
        "hangs": hang(HALF),
        "limited": status(429, headers={"retry-after": "3600"}),
        # Longer than OpenCode's own wait of 2 s, so that it is known for the provider's word.
        "rested": status(429, headers={"retry-after": "4"}),
        "rejected": status(401),
        "overloaded": status(503),
        "empty": stream(),
        "cut": cut(HALF),
    }
    return replies[behaviour]


def take(door: Door, step: Step, number: int) -> None:
    """Carry a step out at a door."""
    match step:
        case Prompt(model):
            door.prompt(f"Prompt {number}", model)
        case Stop(model):
            door.stop(f"Prompt {number}", model, HALF)
        case Clear(model):
            door.clear(model)
        case Restart():
            door.restart()
        case Change(settings, mistake_first):
            door.change(settings, mistake_first=mistake_first)
        case Expire():
            door.expire()


def agreed(doors: Sequence[Door], step: Step) -> tuple[Observation, list[str]]:
    """Wait until all doors show what they should, twice in a row, and return what is seen inside.

    With it comes a line for each difference that has not gone away.
    """
    deadline = time.monotonic() + AGREE_WITHIN_S
    last: list[Observation] | None = None
    while True:
        seen = [door.observe() for door in doors]
        lines = [
            f"{door.name}: {line}"
            for door, observed in zip(doors, seen, strict=True)
            for line in differences(door.name, step, seen[0], observed)
        ]
        if (not lines and seen == last) or time.monotonic() > deadline:
            return seen[0], lines
        last = seen
        for door in doors:
            door.is_quiet(QUIET_S / len(doors))


def report(seed: int, steps: Sequence[Step], lines: Sequence[str], doors: Sequence[Door]) -> str:
    """Write what is needed to look into a difference."""
    return "\n".join(
        [
            f"seed {seed}, step {len(steps)} of:",
            *(f"  {number}. {step}" for number, step in enumerate(steps, 1)),
            *lines,
            *(f"=== {door.name}: {door.observe()}\n{door.logs()}" for door in doors),
        ]
    )
