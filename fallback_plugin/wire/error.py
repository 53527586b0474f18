"""The host's error object: ``{name, data: {message, statusCode, isRetryable, responseBody, …}}``."""

from typing import Any, Final

from fallback_plugin.events import HostError
from fallback_plugin.wire.fields import Json, integer, optional_object, text

_WITH_BODY: Final = frozenset({"APIError", "ContextOverflowError"})


def read_error(raw: object) -> HostError:
    """Read an error; whatever is missing stays unknown, since an error must never be lost."""
    if isinstance(raw, str):
        return HostError(name="UnknownError", message=raw)
    source: Json = raw if isinstance(raw, dict) else {}
    data = optional_object(source, "data") or {}
    headers = optional_object(data, "responseHeaders") or {}
    retryable = data.get("isRetryable")
    return HostError(
        name=text(source, "name") or "UnknownError",
        message=text(data, "message") or text(source, "message") or "",
        status_code=integer(data, "statusCode"),
        is_retryable=retryable if isinstance(retryable, bool) else None,
        response_body=text(data, "responseBody"),
        response_headers={str(name).lower(): str(value) for name, value in headers.items()},
    )


def write_error(error: HostError) -> dict[str, Any]:
    """Write an error; only an ``APIError`` has more than its message, in OpenCode's schema."""
    data: dict[str, Any] = {"message": error.message}
    if error.name == "APIError":
        data |= {"isRetryable": bool(error.is_retryable)}
        if error.status_code is not None:
            data["statusCode"] = error.status_code
        if error.response_headers:
            data["responseHeaders"] = dict(error.response_headers)
    if error.response_body is not None and error.name in _WITH_BODY:
        data["responseBody"] = error.response_body
    return {"name": error.name, "data": data}
