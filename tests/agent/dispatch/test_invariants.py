"""The invariants I1 to I10 of the contract under random schedules, each replayed exactly by its seed."""

from random import Random
from typing import Final

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.agent.dispatch.schedules import SESSIONS, Performance, Step, Word

WORDS: Final[tuple[Word, ...]] = (
    *("accept",) * 9,
    *("steer",) * 4,
    *("all",) * 2,
    "current",
    "queue",
    "undo",
    "release",
    "empty",
    "wait",
    "hold",
    "hold",
    "send",
    "send",
    "discard",
)
PAUSES: Final = (0, 0, 0, 1, 2, 3, 5, 8, 13)
steps = st.builds(
    Step,
    st.sampled_from(WORDS),
    st.sampled_from(SESSIONS),
    after=st.sampled_from(PAUSES),
)
schedules = st.lists(steps, min_size=3, max_size=40)
seeds = st.integers(min_value=0, max_value=2**32)
thorough = settings(
    deadline=None, suppress_health_check=[HealthCheck.too_slow], max_examples=250, derandomize=True
)

BY_SEED: Final = 150

pytestmark = pytest.mark.timeout(120)


def test_schedules_by_their_seeds() -> None:
    """The same without a search for the shortest schedule: a mistake shows at once."""
    for seed in range(BY_SEED):
        random = Random(seed)  # noqa: S311 -- a schedule, no secret
        performance = Performance(seed)
        performance.play(
            [
                Step(random.choice(WORDS), random.choice(SESSIONS), random.choice(PAUSES))
                for _ in range(random.randrange(3, 40))
            ]
        )
        performance.check()


@thorough
@given(schedules, seeds)
def test_whatever_happens_each_run_ends_once_and_in_order(schedule: list[Step], seed: int) -> None:
    performance = Performance(seed)
    performance.play(schedule)
    performance.check()


def test_H6_writes_that_fail_for_a_while_lose_no_run_and_no_order() -> None:
    """The same schedules on a disk that is full now and then, and for a long time at the end."""
    words: tuple[Word, ...] = (*WORDS, *("fill",) * 4, *("room",) * 3)
    for seed in range(BY_SEED):
        random = Random(seed)  # noqa: S311 -- a schedule, no secret
        performance = Performance(seed, is_full_to_the_end=seed % 2 == 0)
        performance.play(
            [
                Step(random.choice(words), random.choice(SESSIONS), random.choice(PAUSES))
                for _ in range(random.randrange(3, 40))
            ]
        )
        performance.check()


@thorough
@given(schedules, seeds)
def test_a_stop_in_the_midst_of_it_loses_nothing(schedule: list[Step], seed: int) -> None:
    performance = Performance(seed, stop_at_end=True)
    performance.play(schedule)
    performance.check()
