"""What the bridge file tells of a request to a model that failed, and of the last one of a turn."""

from collections.abc import Mapping
from typing import Final, get_args

from fallback_plugin.events import Ending, HostError, LastRequest
from fallback_plugin.wire.fields import Json, integer, optional_object, text
from fallback_plugin.wire.message import read_model

_ENDINGS: Final[Mapping[str, Ending]] = {ending: ending for ending in get_args(Ending)}


def read_request_failure(raw: Json) -> tuple[HostError, Ending]:
    """Return what came back of a request, and how it ended."""
    headers = optional_object(raw, "headers") or {}
    error = HostError(
        name="",
        message=text(raw, "message") or "",
        status_code=integer(raw, "status"),
        response_body=text(raw, "body"),
        response_headers={str(name).lower(): str(value) for name, value in headers.items()},
    )
    return error, _ENDINGS.get(text(raw, "ending") or "", "refused")


def read_last_request(raw: Json | None) -> LastRequest | None:
    """Return who was asked last for a turn, None if nothing was told of that.

    Raises:
        WireError: if the model is none.
    """
    model = optional_object(raw, "model") if raw else None
    if raw is None or model is None:
        return None
    failure = optional_object(raw, "failure")
    if failure is None:
        return LastRequest(model=read_model(model))
    error, ending = read_request_failure(failure)
    return LastRequest(model=read_model(model), error=error, ending=ending)
