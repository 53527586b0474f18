"""How long to wait before a lost server is tried again."""

from typing import Final

SHORTEST_S: Final = 0.5
LONGEST_S: Final = 30.0
HEALTHY_S: Final = 60.0
"""A connection that lasted so long was a good one: the next loss begins with the shortest wait."""

SLOWEST: Final = 5
"""After so many tries in a row the wait does not grow any more."""


def delay_s(tries: int, fraction: float) -> float:
    """Return the wait after ``tries`` tries in vain.

    It doubles with each try, and lies between the half and the whole of that, so that many who lost a server
    at once do not come back at once. ``fraction``, 0 to 1, is drawn at random.
    """
    longest_s = min(LONGEST_S, 2.0 * SHORTEST_S * (1 << min(tries, SLOWEST)))
    return longest_s * (1 + fraction) / 2


def tries_after(tries: int, connected_s: float | None) -> int:
    """Return how many tries in a row count once a connection has ended; None if there was none."""
    return 0 if connected_s is not None and connected_s >= HEALTHY_S else tries
