"""What to do about each kind of failure."""

from collections.abc import Mapping
from typing import Final, Literal, TypeAlias

from fallback_plugin.settings import FailureKind, PolicyAction

Action: TypeAlias = PolicyAction | Literal["retry_then_fallback", "compact"]

DEFAULT_POLICY: Final[Mapping[FailureKind, Action]] = {
    "rate_limit": "fallback",
    "quota": "fallback",
    "billing": "fallback",
    "concurrency": "fallback",
    "overload": "fallback",
    "server": "fallback",
    "transport": "fallback",
    "timeout": "fallback",
    "empty": "fallback",
    "auth": "fallback",
    "model_not_found": "fallback",
    "overflow": "compact",
    "content_policy": "stop",
    "bad_request": "stop",
    "certificate": "stop",
    "unknown": "retry_then_fallback",
}
"""`retry_then_fallback` leaves the model once the host has asked it a second time; `compact` leaves the
failure to the host, which shortens the history by itself."""


def action_for(kind: FailureKind, overrides: Mapping[FailureKind, PolicyAction]) -> Action:
    """Return the action for a kind; the user's table goes before ours."""
    return overrides.get(kind) or DEFAULT_POLICY[kind]
