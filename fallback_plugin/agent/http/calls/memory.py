"""What memory providers have still to be told, for a person to see."""

from collections.abc import Sequence
from dataclasses import asdict

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from fallback_plugin.agent.host import AgentHost
from fallback_plugin.agent.http.calls.call import Call
from fallback_plugin.agent.store import segments


class MemoryCalls:
    """The calls about memory."""

    def __init__(self, host: AgentHost) -> None:
        self._host = host

    @property
    def calls(self) -> Sequence[Call]:
        """Return the calls."""
        return (
            Call(
                "GET",
                "/session/{sessionID}/memory",
                self.segments,
                "Show which turns no memory provider has kept yet, and why",
            ),
        )

    async def segments(self, request: Request) -> Response:
        """Answer ``GET /session/{sessionID}/memory``."""
        session = await self._host.session(request.path_params["sessionID"])
        memory = await self._host.store.read(lambda rows: segments.load(rows, session.id))
        shown = {"turns": memory.generation, "committed": memory.committed}
        return JSONResponse(shown | {"segments": [asdict(segment) for segment in memory.segments]})
