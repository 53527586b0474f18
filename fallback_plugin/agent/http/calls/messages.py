"""The messages of a session."""

from collections.abc import Sequence
from typing import Any
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from fallback_plugin.agent.host import AgentHost
from fallback_plugin.agent.http.calls.call import Call
from fallback_plugin.agent.http.queries import whole_number
from fallback_plugin.agent.http.refusals import BadRequestError
from fallback_plugin.agent.store import messages
from fallback_plugin.agent.store.cursors import cursor

LARGEST_PAGE = 500


class MessageCalls:
    """The calls about what a session holds."""

    def __init__(self, host: AgentHost) -> None:
        self._host = host

    @property
    def calls(self) -> Sequence[Call]:
        """Return the calls."""
        every = "/session/{sessionID}/message"
        one = f"{every}/{{messageID}}"
        return (
            Call(
                "GET",
                every,
                self.page,
                "Read the last messages, oldest first, or with order=asc the first; X-Next-Cursor leads on",
                query={"limit": "integer", "before": "string", "order": "string", "after": "string"},
            ),
            Call("GET", one, self.get, "Read one message"),
            Call("DELETE", one, self.delete, "Delete one message; refused while the session is busy"),
            Call(
                "DELETE",
                f"{one}/part/{{partID}}",
                self.delete_part,
                "Delete one part of a message; refused while the session is busy",
            ),
        )

    async def page(self, request: Request) -> Response:
        """Answer ``GET /session/{sessionID}/message``; without a limit it is the whole history."""
        session_id = request.path_params["sessionID"]
        limit = whole_number(request, "limit")
        before, after = (request.query_params.get(name) for name in ("before", "after"))
        is_ascending = _is_ascending(request.query_params.get("order", "desc"), before, after)
        if limit is None and (before is not None or is_ascending):
            limit = LARGEST_PAGE
        shown = min(limit, LARGEST_PAGE) if limit is not None else None
        if is_ascending:
            page = await self._host.store.read(
                lambda rows: messages.page_from(rows, session_id, limit=shown or LARGEST_PAGE, after=after)
            )
        else:
            page = await self._host.store.read(
                lambda rows: messages.page(rows, session_id, limit=shown, before=before)
            )
        headers = {"x-revision": str(page.revision)}
        if page.next_cursor is not None:
            onward = (
                {"order": "asc", "after": page.next_cursor} if is_ascending else {"before": page.next_cursor}
            )
            query = urlencode({"limit": shown, **onward})
            headers["x-next-cursor"] = page.next_cursor
            headers["link"] = f'<{request.url.replace(query=query)}>; rel="next"'
        return JSONResponse(_items(page, session_id), headers=headers)

    async def get(self, request: Request) -> Response:
        """Answer ``GET /session/{sessionID}/message/{messageID}``."""
        session_id, message_id = request.path_params["sessionID"], request.path_params["messageID"]
        found = await self._host.store.read(lambda rows: messages.one(rows, session_id, message_id))
        return JSONResponse(found)

    async def delete(self, request: Request) -> Response:
        """Answer ``DELETE /session/{sessionID}/message/{messageID}``; of one that is gone, too."""
        await self._host.delete_message(request.path_params["sessionID"], request.path_params["messageID"])
        return JSONResponse(content=True)

    async def delete_part(self, request: Request) -> Response:
        """Answer ``DELETE /session/{sessionID}/message/{messageID}/part/{partID}``."""
        await self._host.sessions.delete_part(
            request.path_params["sessionID"], request.path_params["messageID"], request.path_params["partID"]
        )
        return JSONResponse(content=True)


def _is_ascending(order: str, before: str | None, after: str | None) -> bool:
    if order not in ("asc", "desc"):
        raise BadRequestError(f'Expected one of asc, desc, got {order[:20]}\n  at ["order"]', kind="Query")
    if (after if order == "desc" else before) is not None:
        raise BadRequestError("before goes with order=desc, after with order=asc", kind="Query")
    return order == "asc"


def _items(page: messages.Page, session_id: str) -> list[dict[str, Any]]:
    """Return messages with the place of each, so that a client can lay pages and events side by side."""
    return [
        {**item, "position": position, "cursor": cursor(session_id, position)}
        for item, position in zip(page.items, page.positions, strict=True)
    ]
