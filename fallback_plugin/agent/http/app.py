"""The application: every call and the page behind the guard, and errors the way OpenCode writes them."""

from collections.abc import Sequence
from typing import Any, cast

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from fallback_plugin.agent.host import AgentHost
from fallback_plugin.agent.http.calls import Call, calls_of
from fallback_plugin.agent.http.description import description
from fallback_plugin.agent.http.guard import App, Guard, Rules
from fallback_plugin.agent.http.page import page_routes
from fallback_plugin.agent.http.refusals import broken, refused, unknown_path
from fallback_plugin.agent.http.sniffing import NoSniffing
from fallback_plugin.errors import AgentError


def application(host: AgentHost, rules: Rules) -> App:
    """Return what serves a host over HTTP."""
    calls = [*calls_of(host)]

    async def doc(request: Request) -> Response:
        del request
        return JSONResponse(description(calls))

    calls.append(Call("GET", "/doc", doc, "This description"))
    handlers: dict[Any, Any] = {AgentError: refused, HTTPException: unknown_path, Exception: broken}
    app = Starlette(routes=[*_routes(calls), *page_routes()], exception_handlers=handlers)
    return NoSniffing(Guard(cast("App", app), rules))


def _routes(calls: Sequence[Call]) -> list[Route]:
    return [Route(call.path, call.handler, methods=[call.method]) for call in calls]
