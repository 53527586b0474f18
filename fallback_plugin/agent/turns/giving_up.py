"""Leaving a model that a session waits for, from outside of its turn: a timer's word, never a person's."""

from collections.abc import Iterator
from contextlib import contextmanager

from anyio import CancelScope

from fallback_plugin.errors import AgentError


class Waiting:
    """A request under way. ``flowing``: its answer has begun; ``given_up``: it was left."""

    def __init__(self, agent: str) -> None:
        self.agent = agent
        self.flowing = False
        self.given_up = False
        self.scope = CancelScope()


class GivingUp:
    """The requests under way, at most one a session."""

    def __init__(self) -> None:
        self._waiting: dict[str, Waiting] = {}

    @contextmanager
    def waiting(self, session_id: str, agent: str) -> Iterator[Waiting]:
        """Let the block be left by `give_up`; what the block awaits is cancelled then, and the block ends."""
        waiting = Waiting(agent)
        self._waiting[session_id] = waiting
        try:
            with waiting.scope:
                yield waiting
        finally:
            if self._waiting.get(session_id) is waiting:
                del self._waiting[session_id]

    def give_up(self, session_id: str, agent: str | None, *, flowing: bool = False) -> None:
        """Leave the model that an agent of the session waits for; see `HostCalls.give_up`.

        Raises:
            AgentError: (404) if no request is under way that this could be done to.
        """
        waiting = self._waiting.get(session_id)
        if waiting is None or agent not in (None, waiting.agent) or (waiting.flowing and not flowing):
            raise AgentError(f"{session_id}: no request is under way that could be given up", status=404)
        waiting.given_up = True
        waiting.scope.cancel()
