"""What has a lane to itself, and how it is asked to leave it."""

from dataclasses import dataclass
from typing import Protocol

from fallback_plugin.agent.records import Run


class Stoppable(Protocol):
    """What an active entry has under way."""

    def cancel(self) -> None:
        """Ask it to unwind."""
        ...

    def give_up(self) -> None:
        """Ask it to unwind, and no longer wait until it has."""
        ...


@dataclass(slots=True, eq=False)
class ActiveEntry:
    """What has a lane to itself: a run, or an operation without one. Only it itself gives the lane back."""

    run: Run | None
    is_cancelled: bool = False
    execution: Stoppable | None = None

    def cancel(self) -> None:
        """Ask what is active to unwind; the entry stays until it has."""
        if not self.is_cancelled:
            self.is_cancelled = True
            if self.execution is not None:
                self.execution.cancel()

    def give_up(self) -> None:
        """Ask what is active to unwind, and let the lane go on without waiting for it."""
        self.cancel()
        if self.execution is not None:
            self.execution.give_up()
