"""Errors in what a provider sends: the body of a refusal, or an error in place of an answer.

Not every provider uses the HTTP status for its errors. Under status 200 come OpenAI's error object, an SSE
``event: error`` (DashScope, Anthropic), ``base_resp`` (MiniMax), an error inside a choice (OpenRouter), and
the plain ``{code, message}`` or ``{detail}`` of gateways.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Final

from fallback_plugin.agent.records import Json
from fallback_plugin.events import HostError
from fallback_plugin.wire.fields import integer, optional_object, text

_MESSAGE_KEYS: Final = (
    "message",
    "msg",
    "detail",
    "error_msg",
    "error_message",
    "errorMessage",
    "status_msg",
)
_NESTED_KEYS: Final = ("error", "base_resp", "errors", "detail", "response")
_CODE_KEYS: Final = ("code", "status", "error_code", "status_code", "errorCode")
_SUCCESS: Final = frozenset({"", "0", "200", "ok", "success", "none"})
_RETRYABLE: Final = frozenset({408, 409, 429})
_FIRST_SERVER_ERROR: Final = 500
_HTTP_ERRORS: Final = range(400, 600)
_MAX_DEPTH: Final = 4


def is_retryable(status: int) -> bool:
    """Tell whether the same request may be answered later, as the OpenAI client does."""
    return status in _RETRYABLE or status >= _FIRST_SERVER_ERROR


def error_in(value: object, *, event: str = "", is_whole: bool = False) -> Json | None:
    """Return the error that a provider sent in place of an answer, None if ``value`` is none.

    ``event`` is the name of the SSE event; ``is_whole`` says that the value is the whole body.
    """
    if isinstance(value, list):
        value = next((each for each in value if isinstance(each, Mapping)), None)
    if not isinstance(value, Mapping):
        return {"message": str(value)} if event == "error" and value is not None else None
    if value.get("error") or event == "error" or "error" in (value.get("type"), value.get("object")):
        return value
    choices = value.get("choices")
    for choice in choices if isinstance(choices, list) else ():
        if isinstance(choice, Mapping) and choice.get("error"):
            return {"error": choice["error"]}
    if integer(optional_object(value, "base_resp") or {}, "status_code"):
        return value
    if choices or error_message(value) is None:
        return None
    return value if is_whole or any(_is_error_code(value.get(key)) for key in _CODE_KEYS) else None


def error_under_success(found: Json, headers: Mapping[str, str]) -> HostError:
    """Return the error that `error_in` found under a status of success."""
    status = next(_statuses(found), None)
    return HostError(
        name="APIError",
        message=error_message(found) or "the provider answered with an error",
        is_retryable=status is None or is_retryable(status),
        response_body=json.dumps(found, ensure_ascii=False, default=str),
        response_headers={name.lower(): value for name, value in headers.items()},
    )


def error_message(body: object, depth: int = 0) -> str | None:
    """Return what the body of an error says, None if it holds no words."""
    if isinstance(body, str):
        return body.strip() or None
    if isinstance(body, list):
        body = next(iter(body), None)
    if not isinstance(body, Mapping) or depth > _MAX_DEPTH:
        return None
    nested = (error_message(body.get(key), depth + 1) for key in _NESTED_KEYS)
    own = (text(body, key) for key in _MESSAGE_KEYS)
    return next(filter(None, (*nested, *own)), None)


def _is_error_code(code: object) -> bool:
    if code is None or isinstance(code, bool | Mapping | list):
        return False
    return str(code).strip().lower() not in _SUCCESS


def _statuses(found: Json) -> Iterator[int]:
    """Yield the HTTP statuses that an error names as its codes."""
    inner = found.get("error")
    for each in (found, inner if isinstance(inner, Mapping) else {}):
        for key in _CODE_KEYS:
            code = str(each.get(key, ""))
            if code.isdecimal() and int(code[:9]) in _HTTP_ERRORS:
                yield int(code)
