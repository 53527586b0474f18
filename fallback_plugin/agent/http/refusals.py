"""Errors the way OpenCode writes them: ``{name, data: {message, …}}``."""

import logging
from http import HTTPStatus
from typing import Any, Final

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse

from fallback_plugin.agent.identifiers import new_id
from fallback_plugin.errors import AgentError, SessionBusyError

logger = logging.getLogger(__name__)

_NAMES: Final = {HTTPStatus.BAD_REQUEST: "BadRequest", HTTPStatus.NOT_FOUND: "NotFoundError"}


class BadRequestError(AgentError):
    """A request cannot be read; ``kind`` says which part of it: ``Payload``, ``Query`` or ``Params``."""

    code = "agent_request"

    def __init__(self, message: str, *, kind: str = "Payload", status: int = 400) -> None:
        super().__init__(message, status=status)
        self.kind = kind


def refused(request: Request, error: AgentError) -> JSONResponse:
    """Answer a call that cannot be done, with the reason."""
    if error.status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        logger.error("%s %s: %s", request.method, request.url.path, error)
    data: dict[str, Any] = {"message": str(error)}
    if isinstance(error, BadRequestError):
        data["kind"] = error.kind
    if isinstance(error, SessionBusyError):
        busy = {"_tag": "SessionBusyError", "sessionID": error.session_id, "message": str(error)}
        return JSONResponse(busy, status_code=error.status)
    if error.status == HTTPStatus.CONFLICT:
        return JSONResponse({"_tag": "ConflictError", "message": str(error)}, status_code=error.status)
    name = _NAMES.get(HTTPStatus(error.status), "UnknownError")
    return JSONResponse({"name": name, "data": data}, status_code=error.status)


def unknown_path(request: Request, error: HTTPException) -> JSONResponse:
    """Answer a path or method that is none of ours."""
    message = f"{request.method} {request.url.path}: {error.detail}"
    name = _NAMES.get(HTTPStatus(error.status_code), "UnknownError")
    return JSONResponse({"name": name, "data": {"message": message}}, status_code=error.status_code)


def broken(request: Request, error: Exception) -> JSONResponse:
    """Answer when the mistake is ours; the log has the rest, under the same reference."""
    ref = new_id("err")
    logger.error("%s: %s %s failed", ref, request.method, request.url.path, exc_info=error)
    message = "Unexpected server error. Check server logs for details."
    return JSONResponse({"name": "UnknownError", "data": {"message": message, "ref": ref}}, status_code=500)
