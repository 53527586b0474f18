"""Seeing a model go round in circles: the same tool with the same arguments, again and again."""

from typing import Final

MAX_REPEATS: Final = 5
"""How often in a row one call may be made."""


class LoopGuard:
    """Counts equal calls in a row; lives as long as a turn."""

    def __init__(self, max_repeats: int = MAX_REPEATS) -> None:
        self._max_repeats = max_repeats
        self._last: tuple[str, str] | None = None
        self._repeats = 0

    def goes_round(self, tool: str, arguments: str) -> bool:
        """Take a call in, and tell whether it comes once too often."""
        call = (tool, arguments)
        self._repeats = self._repeats + 1 if call == self._last else 1
        self._last = call
        return self._repeats > self._max_repeats
