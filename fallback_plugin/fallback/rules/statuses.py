"""HTTP statuses (RFC 9110 section 15, and the ones gateways add)."""

from collections.abc import Mapping
from typing import Final

from fallback_plugin.settings import FailureKind

STATUS_KINDS: Final[Mapping[int, FailureKind]] = {
    400: "bad_request",
    401: "auth",
    402: "billing",
    403: "auth",
    404: "model_not_found",
    408: "timeout",
    413: "overflow",
    415: "bad_request",
    422: "bad_request",
    424: "server",
    425: "server",
    429: "rate_limit",
    451: "content_policy",
    498: "auth",
    500: "server",
    502: "server",
    503: "overload",
    504: "timeout",
    524: "timeout",
    529: "overload",
}


def status_kind(status: int) -> FailureKind | None:
    """Return the kind a status stands for; None if it is no failure."""
    by_class: Mapping[int, FailureKind] = {4: "bad_request", 5: "server"}
    return STATUS_KINDS.get(status) or by_class.get(status // 100)
