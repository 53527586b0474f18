"""What a turn reads of the host's store."""

from collections.abc import Sequence
from typing import Protocol

from fallback_plugin.agent.records import Json, Session


class Sessions(Protocol):
    """The stored sessions. A read sees every write of the same turn that has returned."""

    async def session(self, session_id: str) -> Session:
        """Look a session up. Raises `AgentError` if there is none."""
        ...

    async def history(self, session_id: str) -> Sequence[Json]:
        """Return its visible messages as OpenCode's ``{info, parts}``, oldest first."""
        ...
