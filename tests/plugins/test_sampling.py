"""One event in a while."""

from fallback_plugin.plugins.sampling import Sampler
from tests.plugins.fake_calls import Clock


def test_the_first_of_a_session_is_due_at_once_and_the_next_is_not() -> None:
    sampler = Sampler(5.0, Clock())

    assert [sampler.is_due("s"), sampler.is_due("s"), sampler.is_due("other")] == [True, False, True]


def test_after_the_interval_a_session_is_due_again() -> None:
    clock = Clock()
    sampler = Sampler(5.0, clock)
    sampler.is_due("s")

    clock.now += 4.9
    early = sampler.is_due("s")
    clock.now += 0.1

    assert (early, sampler.is_due("s"), sampler.is_due("s")) == (False, True, False)


def test_a_forgotten_session_is_due_at_once() -> None:
    sampler = Sampler(5.0, Clock())
    sampler.is_due("s")

    sampler.forget("s")

    assert sampler.is_due("s")


def test_sessions_that_fell_silent_are_not_kept() -> None:
    clock = Clock()
    sampler = Sampler(5.0, clock)
    for number in range(100):
        sampler.is_due(f"s{number}")
    clock.now += 5.0

    sampler.is_due("s")

    assert len(sampler._passed) == 1
