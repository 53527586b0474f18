"""The lanes there are: one for each session that somebody works with, under each of its ids."""

from collections.abc import Iterator
from contextlib import contextmanager

from fallback_plugin.agent.dispatch.accept_sequence import AcceptSequence
from fallback_plugin.agent.dispatch.lane import Lane
from fallback_plugin.errors import AgentError


class LaneTable:
    """Lanes by session id. A lane stays the same one while it is held, and is forgotten when idle after."""

    def __init__(self, sequence: AcceptSequence) -> None:
        self._sequence = sequence
        self._lanes: dict[str, Lane] = {}
        self._is_closed = False

    def __len__(self) -> int:
        """Return how many ids have a lane."""
        return len(self._lanes)

    def __iter__(self) -> Iterator[Lane]:
        """Iterate over the lanes, each once."""
        return iter(dict.fromkeys(self._lanes.values()))

    def find(self, session_id: str) -> Lane | None:
        """Return a session's lane, None if nobody works with the session."""
        return self._lanes.get(session_id)

    @contextmanager
    def hold(self, session_id: str) -> Iterator[Lane]:
        """Keep a session's lane for a while, a new one if there is none."""
        lane = self._lanes.get(session_id)
        if lane is None:
            lane = self._lanes[session_id] = Lane(session_id, self._sequence)
            lane.is_closed = self._is_closed
        with self.keep(lane):
            yield lane

    @contextmanager
    def keep(self, lane: Lane) -> Iterator[None]:
        """Keep a lane for a while."""
        lane.holders += 1
        try:
            yield
        finally:
            lane.holders -= 1
            if lane.is_idle and not lane.holders:
                for session_id in lane.ids:
                    if self._lanes.get(session_id) is lane:
                        del self._lanes[session_id]

    def close(self) -> None:
        """Stop every lane, also those that come later."""
        self._is_closed = True
        for lane in self:
            lane.close()

    def alias(self, lane: Lane, session_id: str) -> None:
        """Let a further id resolve to a lane, as its own do.

        Raises:
            AgentError: with status 409 if that id has another lane.
        """
        if self._lanes.get(session_id, lane) is not lane:
            raise AgentError(
                f"session {session_id} cannot continue another: it is at work itself", status=409
            )
        if session_id not in lane.ids:
            lane.ids.append(session_id)
        for known in lane.ids:
            self._lanes.setdefault(known, lane)
