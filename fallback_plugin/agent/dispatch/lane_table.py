"""The lanes there are: one for each session that somebody works with, under each of its ids."""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import TypeAlias

from fallback_plugin.agent.dispatch.accept_sequence import AcceptSequence
from fallback_plugin.agent.dispatch.lane import Lane
from fallback_plugin.errors import SessionBusyError

IdsOf: TypeAlias = Callable[[str], Awaitable[Sequence[str]]]
"""Returns every id that a session has had, the newest last."""


class LaneTable:
    """Lanes by session id. A lane stays the same one while it is held, and is forgotten when idle after."""

    def __init__(self, sequence: AcceptSequence, ids_of: IdsOf) -> None:
        self._sequence = sequence
        self._ids_of = ids_of
        self._lanes: dict[str, Lane] = {}

    def __len__(self) -> int:
        """Return how many ids have a lane."""
        return len(self._lanes)

    def __iter__(self) -> Iterator[Lane]:
        """Iterate over the lanes, each once."""
        return iter(dict.fromkeys(self._lanes.values()))

    def find(self, session_id: str) -> Lane | None:
        """Return a session's lane, None if nobody works with the session."""
        return self._lanes.get(session_id)

    @asynccontextmanager
    async def hold_session(self, session_id: str) -> AsyncIterator[Lane]:
        """Keep the lane of a session, known by whichever of its ids. Raises what ``ids_of`` does."""
        ids = await self._ids_of(session_id)
        with self.hold(*ids) as lane:
            yield lane

    @contextmanager
    def hold(self, *ids: str) -> Iterator[Lane]:
        """Keep the lane of a session for a while, a new one if there is none.

        ``ids`` are all that the session has had: each of them leads to the lane from now on.
        """
        lane = next((self._lanes[known] for known in ids if known in self._lanes), None)
        if lane is None:
            lane = Lane(self._sequence)
        for session_id in ids:
            self.alias(lane, session_id)
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
        """Stop every lane."""
        for lane in self:
            lane.close()

    def alias(self, lane: Lane, session_id: str) -> None:
        """Let a further id resolve to a lane, as its own do.

        Raises:
            AgentError: with status 409 if that id has another lane.
        """
        if self._lanes.get(session_id, lane) is not lane:
            raise SessionBusyError(
                f"session {session_id} cannot continue another: it is at work itself", session_id=session_id
            )
        if session_id not in lane.ids:
            lane.ids.append(session_id)
        for known in lane.ids:
            self._lanes.setdefault(known, lane)
