"""What to do about each kind of failure."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from fallback_plugin.fallback.classify import Failure
from fallback_plugin.settings import FailureKind, PolicyAction, Settings

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


RETRIES: Final[Mapping[FailureKind, int]] = {"concurrency": 1, "unknown": 1}
"""How often a model is asked again before it is left, where the person's policy does not say."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What follows a failure; ``retries`` is how often the model is asked once more before it is left."""

    action: Action
    retries: int = 0


def decide(failure: Failure, settings: Settings, *, agent: str | None, provider: str) -> Verdict:
    """Return what follows a failure of a model of ``provider`` in a turn of ``agent``."""
    action = action_for(failure.kind, settings.fallback.policy)
    retries = RETRIES.get(failure.kind, 0)
    return Verdict("retry_then_fallback" if retries and action == "fallback" else action, retries)
