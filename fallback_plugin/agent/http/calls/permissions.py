"""Questions whether a tool may do something."""

from collections.abc import Sequence
from typing import cast, get_args

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from fallback_plugin.agent.host import AgentHost
from fallback_plugin.agent.http.bodies import body_of, optional, required
from fallback_plugin.agent.http.calls.call import Call
from fallback_plugin.agent.http.refusals import BadRequestError
from fallback_plugin.agent.turns.permissions import Reply


class PermissionCalls:
    """The calls about questions."""

    def __init__(self, host: AgentHost) -> None:
        self._host = host

    @property
    def calls(self) -> Sequence[Call]:
        """Return the calls."""
        return (
            Call("GET", "/permission", self.list, "List the questions that wait for a person"),
            Call(
                "POST",
                "/permission/{requestID}/reply",
                self.reply,
                "Answer a question: once, always or reject",
                {"reply": "string!", "message": "string"},
            ),
            Call(
                "POST",
                "/session/{sessionID}/permissions/{requestID}",
                self.respond,
                "The same under OpenCode's older name",
                {"response": "string!"},
            ),
        )

    async def list(self, request: Request) -> Response:
        """Answer ``GET /permission``."""
        del request
        return JSONResponse(self._host.permissions.questions())

    async def reply(self, request: Request) -> Response:
        """Answer ``POST /permission/{requestID}/reply``."""
        body = await body_of(request)
        said = _reply(required(body, "reply", str), "reply")
        await self._host.permissions.reply(
            request.path_params["requestID"], said, optional(body, "message", str)
        )
        return JSONResponse(content=True)

    async def respond(self, request: Request) -> Response:
        """Answer ``POST /session/{sessionID}/permissions/{requestID}``."""
        said = _reply(required(await body_of(request), "response", str), "response")
        await self._host.permissions.reply(request.path_params["requestID"], said)
        return JSONResponse(content=True)


def _reply(word: str, key: str) -> Reply:
    if word not in get_args(Reply):
        raise BadRequestError(f'Expected one of {", ".join(get_args(Reply))}\n  at ["{key}"]')
    return cast("Reply", word)
