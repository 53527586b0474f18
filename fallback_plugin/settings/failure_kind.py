"""The words for why a model failed and what may follow: settings and classifier share them."""

from typing import Final, Literal, TypeAlias, get_args

FailureKind: TypeAlias = Literal[
    "rate_limit",
    "quota",
    "billing",
    "concurrency",
    "overload",
    "server",
    "transport",
    "timeout",
    "empty_response",
    "auth",
    "model_not_found",
    "overflow",
    "unsupported_content",
    "content_policy",
    "bad_request",
    "output_length",
    "model_output",
    "tls",
    "host",
    "user",
    "abort",
    "unknown",
]

PolicyWord: TypeAlias = Literal["fallback", "stop", "ignore"]
"""``fallback``: go on with the next model; ``stop``: end the turn and say why; ``ignore``: do nothing."""

FAILURE_KINDS: Final[tuple[FailureKind, ...]] = get_args(FailureKind)
