"""Pages of a session's messages over HTTP, as `HistoryPager` asks for them."""

from http import HTTPStatus
from typing import Any
from urllib.parse import quote

import httpx2

from fallback_plugin.errors import HostCallError
from fallback_plugin.history import Fetch, Page, PageRequest
from fallback_plugin.opencode.answers import failure_text, refusal_text


def pages(http: httpx2.AsyncClient) -> Fetch:
    """Return what fetches pages from the server that ``http`` leads to.

    OpenCode knows pages from the end only (``order="desc"``); our own host both. A page that cannot be read
    is a `HostCallError`; a session that is gone is None.
    """

    async def fetch(request: PageRequest) -> Page | None:
        path = f"/session/{quote(request.session_id, safe='')}/message"
        asked: dict[str, Any] = {"limit": request.limit, "before": request.before, "after": request.after}
        if request.order == "asc":
            asked["order"] = "asc"
        try:
            response = await http.get(path, params={name: value for name, value in asked.items() if value})
        except httpx2.HTTPError as error:
            raise HostCallError(f"GET {path}: {failure_text(error)}") from error
        if response.status_code == HTTPStatus.NOT_FOUND:
            return None
        if response.is_error:
            reason = refusal_text(response.status_code, None)
            raise HostCallError(f"GET {path}: {reason}", status=response.status_code)
        following = response.headers.get("x-next-cursor")
        return Page(
            items=response.json(),
            next_before=following if request.order == "desc" else None,
            next_after=following if request.order == "asc" else None,
            revision=int(response.headers.get("x-revision", "0")),
        )

    return fetch
