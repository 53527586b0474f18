"""Acceptances: their numbers over all sessions, and the place each keeps until it is decided about."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fallback_plugin.agent.dispatch.lane import Lane


class AcceptSequence:
    """Numbers acceptances over all sessions, upwards from the greatest number the store has."""

    def __init__(self, last: int = 0) -> None:
        self.last = last

    def take(self) -> int:
        """Return the next number."""
        self.last += 1
        return self.last


class Reservation:
    """A prompt's place on a lane, from its acceptance until it is decided what becomes of it."""

    def __init__(self, lane: "Lane", sequence: int) -> None:
        self.lane = lane
        self.sequence = sequence

    @property
    def is_covered(self) -> bool:
        """Whether a cancel came after this acceptance."""
        return self.lane.covers(self.sequence)

    def close(self) -> None:
        """Give the place back; harmless if that was done."""
        self.lane.close_reservation(self)
