"""The sequences that are drawn are the same every time, and hold every kind of step."""

from itertools import pairwise
from typing import get_args

from tests.doors.sequences import CLOSING, Expire, Prompt, Restart, Step, Stop, draw


def drawn(count: int = 100) -> list[tuple[Step, ...]]:
    return [draw(seed, 8) for seed in range(count)]


def test_a_seed_is_one_sequence() -> None:
    assert drawn() == drawn()
    assert len(set(map(repr, drawn()))) == 100


def test_every_kind_of_step_is_drawn() -> None:
    assert {type(step) for steps in drawn() for step in steps} == set(get_args(Step))


def test_a_short_rest_is_over_before_anything_else_happens() -> None:
    for steps in drawn():
        for step, following in pairwise(steps):
            rests = isinstance(step, Prompt) and step.world[step.model] == "rested"
            assert not rests or isinstance(following, Expire)


def test_a_stopped_prompt_has_a_model_that_is_stopped() -> None:
    stops = [step for steps in drawn() for step in steps if isinstance(step, Stop)]

    assert stops
    assert all("hangs" in step.world.values() for step in stops)


def test_a_failure_lasts_until_something_may_have_opened_its_model() -> None:
    """Else a door that asks a closed model would be told something else than before."""
    for steps in drawn():
        for step, following in pairwise(steps):
            if isinstance(step, Prompt | Stop) and isinstance(following, Prompt | Stop):
                failing = step.world[step.model]
                assert failing not in CLOSING or following.world[step.model] == failing


def test_a_restart_is_followed_by_something_else() -> None:
    assert not any(
        isinstance(step, Restart) and isinstance(following, Restart)
        for steps in drawn()
        for step, following in pairwise(steps)
    )
