"""Sessions: list, create, look up, rename, delete, fork, undo."""

from collections.abc import Sequence
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from fallback_plugin.agent.host import AgentHost
from fallback_plugin.agent.http.bodies import (
    agent_name,
    body_of,
    check_not_archived,
    check_permission_rules,
    optional,
    required,
    session_model,
)
from fallback_plugin.agent.http.calls.call import Call
from fallback_plugin.agent.http.queries import flag, whole_number
from fallback_plugin.agent.http.refusals import BadRequestError
from fallback_plugin.agent.journal.shapes import session_info
from fallback_plugin.agent.records import Session
from fallback_plugin.agent.store import sessions

MOST_SESSIONS = 1000


class SessionCalls:
    """The calls about sessions themselves."""

    def __init__(self, host: AgentHost) -> None:
        self._host = host

    @property
    def calls(self) -> Sequence[Call]:
        """Return the calls."""
        one = "/session/{sessionID}"
        return (
            Call(
                "GET",
                "/session",
                self.list,
                "List sessions, the last changed first",
                query={"limit": "integer", "roots": "boolean", "search": "string"},
            ),
            Call(
                "POST",
                "/session",
                self.create,
                "Begin a session",
                {
                    "title": "string",
                    "parentID": "string",
                    "agent": "string",
                    "model": "object",
                    "previousID": "string",
                },
            ),
            Call("GET", "/session/status", self.status, "What each session does that is not idle"),
            Call("GET", one, self.get, "Look a session up"),
            Call("PATCH", one, self.change, "Rename a session", {"title": "string"}),
            Call("DELETE", one, self.delete, "Delete a session, also a busy one"),
            Call("GET", f"{one}/children", self.children, "List the sessions begun on behalf of one"),
            Call(
                "POST",
                f"{one}/fork",
                self.fork,
                "Copy what stands before a message, or everything, into a new session",
                {"messageID": "string"},
            ),
            Call(
                "POST",
                f"{one}/revert",
                self.revert,
                "Hide a message and all after it; the next prompt deletes them",
                {"messageID": "string!"},
            ),
            Call("POST", f"{one}/unrevert", self.unrevert, "Show again what a revert hid"),
        )

    async def list(self, request: Request) -> Response:
        """Answer ``GET /session``."""
        limit = whole_number(request, "limit") or MOST_SESSIONS
        roots = flag(request, "roots")
        search = request.query_params.get("search", "").casefold()
        found = await self._host.store.read(sessions.newest)
        wanted = [
            session
            for session in found
            if (session.parent_id is None or not roots) and search in session.title.casefold()
        ]
        return JSONResponse([self._shown(session) for session in wanted[:limit]])

    async def create(self, request: Request) -> Response:
        """Answer ``POST /session``; ``previousID`` names the session that a person leaves for this one."""
        body = await body_of(request)
        check_permission_rules(body)
        model = session_model(body)
        if model is not None and not self._host.models.knows(model):
            raise BadRequestError(f'Model not found: {model.provider}/{model.model}\n  at ["model"]')
        session = await self._host.sessions.create(
            str(self._host.directory),
            title=optional(body, "title", str),
            parent_id=optional(body, "parentID", str),
            agent=agent_name(body, self._host.agents),
            model=model,
        )
        if (previous := optional(body, "previousID", str)) is not None:
            self._host.memory.left(previous)
        return JSONResponse(self._shown(session))

    async def status(self, request: Request) -> Response:
        """Answer ``GET /session/status``: busy sessions, with what each holds."""
        del request
        busy = self._host.dispatcher.busy_sessions()
        return JSONResponse(
            {
                session_id: {
                    "type": "busy",
                    "active": lane.active,
                    "accepted": lane.accepted,
                    "queued": lane.queued,
                }
                for session_id, lane in busy.items()
            }
        )

    async def get(self, request: Request) -> Response:
        """Answer ``GET /session/{sessionID}``."""
        return JSONResponse(self._shown(await self._host.session(request.path_params["sessionID"])))

    async def change(self, request: Request) -> Response:
        """Answer ``PATCH /session/{sessionID}``."""
        body = await body_of(request)
        title = optional(body, "title", str)
        check_permission_rules(body)
        check_not_archived(body)
        session_id = request.path_params["sessionID"]
        if title is None:
            return JSONResponse(self._shown(await self._host.session(session_id)))
        return JSONResponse(self._shown(await self._host.sessions.rename(session_id, title)))

    async def delete(self, request: Request) -> Response:
        """Answer ``DELETE /session/{sessionID}``."""
        await self._host.delete_session(request.path_params["sessionID"])
        return JSONResponse(content=True)

    async def children(self, request: Request) -> Response:
        """Answer ``GET /session/{sessionID}/children``."""
        session = await self._host.session(request.path_params["sessionID"])
        found = await self._host.store.read(lambda rows: sessions.children(rows, session.id))
        return JSONResponse([self._shown(child) for child in found])

    async def fork(self, request: Request) -> Response:
        """Answer ``POST /session/{sessionID}/fork``."""
        message_id = optional(await body_of(request), "messageID", str)
        fork = await self._host.sessions.fork(request.path_params["sessionID"], message_id)
        return JSONResponse(self._shown(fork))

    async def revert(self, request: Request) -> Response:
        """Answer ``POST /session/{sessionID}/revert``."""
        message_id = required(await body_of(request), "messageID", str)
        session = await self._host.revert(request.path_params["sessionID"], message_id)
        return JSONResponse(self._shown(session))

    async def unrevert(self, request: Request) -> Response:
        """Answer ``POST /session/{sessionID}/unrevert``."""
        return JSONResponse(self._shown(await self._host.revert(request.path_params["sessionID"], None)))

    def _shown(self, session: Session) -> dict[str, Any]:
        return session_info(session) | {"isBusy": self._host.dispatcher.status(session.id).is_busy}
