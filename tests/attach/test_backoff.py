"""The waits between two tries."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from fallback_plugin.attach.backoff import HEALTHY_S, LONGEST_S, SHORTEST_S, delay_s, tries_after

fractions = st.floats(0, 1)


@given(st.integers(0, 10_000), fractions)
def test_a_wait_stays_within_its_bounds(tries: int, fraction: float) -> None:
    assert SHORTEST_S <= delay_s(tries, fraction) <= LONGEST_S


@given(st.integers(0, 10_000), fractions)
def test_a_wait_never_shrinks_with_the_tries(tries: int, fraction: float) -> None:
    assert delay_s(tries, fraction) <= delay_s(tries + 1, fraction)


@given(st.integers(0, 10_000))
def test_what_is_drawn_spreads_a_wait_from_its_half_to_its_whole(tries: int) -> None:
    assert delay_s(tries, 1) == 2 * delay_s(tries, 0)


def test_waits_double_until_the_longest() -> None:
    waits = [delay_s(tries, 0) for tries in range(7)]

    assert (waits[0], waits[-1]) == (SHORTEST_S, LONGEST_S / 2)
    assert all(later in {2 * earlier, LONGEST_S / 2} for earlier, later in pairwise(waits))


@given(st.integers(0, 100), st.none() | st.floats(0, 1e6))
def test_only_a_healthy_connection_lets_the_waits_begin_anew(tries: int, connected_s: float | None) -> None:
    healthy = connected_s is not None and connected_s >= HEALTHY_S

    assert tries_after(tries, connected_s) == (0 if healthy else tries)
