"""HTTP statuses (RFC 9110 section 15, and those of gateways), and how far a text may make one more exact."""

import re
from collections.abc import Mapping
from functools import cache
from typing import Final

from fallback_plugin.settings import FailureKind

STATUS_KINDS: Final[Mapping[int, FailureKind]] = {
    400: "bad_request",
    401: "auth",
    402: "billing",
    403: "auth",
    404: "model_not_found",
    408: "transport",
    413: "overflow",
    415: "bad_request",
    422: "bad_request",
    424: "server",
    425: "server",
    429: "rate_limit",
    451: "content_policy",
    498: "overload",
    500: "server",
    502: "server",
    503: "server",
    504: "server",
    524: "server",
    529: "overload",
}

PASSING: Final = frozenset[FailureKind]({"rate_limit", "concurrency", "overload"})
MONEY: Final = frozenset[FailureKind]({"quota", "billing"})
REQUEST: Final = frozenset[FailureKind](
    {"overflow", "unsupported_content", "content_policy", "model_output", "model_not_found", "auth"}
)

REFINES: Final[Mapping[FailureKind, frozenset[FailureKind]]] = {
    "bad_request": MONEY | REQUEST | {"rate_limit", "concurrency", "overload", "bad_request", "user", "host"},
    "auth": MONEY | {"model_not_found", "rate_limit", "content_policy", "auth"},
    "billing": MONEY,
    "model_not_found": MONEY | {"auth", "model_not_found", "unsupported_content"},
    "overflow": frozenset({"overflow"}),
    "rate_limit": MONEY | PASSING | {"overflow", "model_not_found", "auth"},
    "server": MONEY | PASSING | {"overflow", "model_not_found", "auth", "transport", "server"},
    "overload": MONEY | PASSING | {"model_not_found", "auth"},
    "transport": MONEY | PASSING | {"transport", "server"},
    "content_policy": frozenset({"content_policy"}),
}
"""Which kinds a code or a phrase may turn a status' kind into."""

_STATED: Final = (
    r"(?:<(?:title|h1)>|\b(?:status(?: code)?|code|http(?:/[\d.]{1,5})?|error|rejected)\b[\s:=(]{1,3}|^\W{0,3}|\[)([45]\d\d)(?![\w.])"
    r"(?!\s{1,3}(?:tokens?|requests?|messages?|characters?|words?|credits?|(?:milli)?seconds?|minutes?|hours?|days?)\b)"
)


def status_kind(status: int) -> FailureKind | None:
    """Return the kind a status stands for; None if it is no failure."""
    by_class: Mapping[int, FailureKind] = {4: "bad_request", 5: "server"}
    return STATUS_KINDS.get(status) or by_class.get(status // 100)


def stated_status(text: str) -> int | None:
    """Return a status named in prose: ``status 503``, ``HTTP 429``, ``Error: 429``, ``[503] …``, ``529 busy``, ``<title>502 …``.

    A number that counts something is none: ``500 tokens``.
    """
    found = _stated().search(text)
    return int(found[1]) if found else None


@cache
def _stated() -> re.Pattern[str]:
    return re.compile(_STATED)
