"""The numbers of acceptances, over all sessions."""


class AcceptSequence:
    """Numbers acceptances over all sessions, upwards from the greatest number the store has."""

    def __init__(self, last: int = 0) -> None:
        self.last = last

    def take(self) -> int:
        """Return the next number."""
        self.last += 1
        return self.last
