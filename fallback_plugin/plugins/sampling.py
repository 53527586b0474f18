"""Let one event in a while through, session by session."""

from collections import OrderedDict
from collections.abc import Callable


class Sampler:
    """Tell whether a session's next event is wanted again.

    A session is remembered for one interval only, so nothing has to be told that it ended.
    """

    def __init__(self, interval_s: float, clock: Callable[[], float]) -> None:
        self._interval_s = interval_s
        self._clock = clock
        self._passed: OrderedDict[str, float] = OrderedDict()

    def is_due(self, session_id: str) -> bool:
        """Return True once an interval at most, and at once for a session that was silent for so long."""
        now = self._clock()
        self._forget_until(now - self._interval_s)
        if session_id in self._passed:
            return False
        self._passed[session_id] = now
        return True

    def forget(self, session_id: str) -> None:
        """Let the session's next event through at once."""
        self._passed.pop(session_id, None)

    def _forget_until(self, moment: float) -> None:
        # What was let through first stands first.
        while self._passed and next(iter(self._passed.values())) <= moment:
            self._passed.popitem(last=False)
