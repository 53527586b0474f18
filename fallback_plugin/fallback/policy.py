"""What to do about each kind of failure."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from fallback_plugin.fallback.classify import Failure
from fallback_plugin.settings import FailureKind, PolicyAction, Settings

Action: TypeAlias = Literal["fallback", "retry_then_fallback", "compact", "no_fallback", "user_abort"]

DEFAULT_POLICY: Final[Mapping[FailureKind, Action]] = {
    "rate_limit": "retry_then_fallback",
    "quota": "fallback",
    "billing": "fallback",
    "concurrency": "retry_then_fallback",
    "overload": "retry_then_fallback",
    "server": "retry_then_fallback",
    "transport": "retry_then_fallback",
    "timeout": "retry_then_fallback",
    "empty_response": "retry_then_fallback",
    "auth": "fallback",
    "model_not_found": "fallback",
    "overflow": "compact",
    "unsupported_content": "no_fallback",
    "content_policy": "no_fallback",
    "bad_request": "no_fallback",
    "output_length": "no_fallback",
    "model_output": "no_fallback",
    "tls": "no_fallback",
    "host": "no_fallback",
    "user": "user_abort",
    "abort": "user_abort",
    "unknown": "retry_then_fallback",
}
"""`retry_then_fallback` permits to ask the same model again; how often that is done is another question
(`RETRIES`). `compact` leaves the failure to the host, which shortens the history by itself."""

RETRIES: Final[Mapping[FailureKind, int]] = {"concurrency": 1, "unknown": 1}
"""How often a failed model is asked again before it is left, where the person's policy does not say: never
while another candidate is usable, but where a moment's wait is all it takes, or nothing is known."""

_LEAVES: Final[Mapping[str, Action]] = {
    "fallback": "fallback",
    "stop": "no_fallback",
    "ignore": "no_fallback",
}


@dataclass(frozen=True, slots=True)
class Verdict:
    """What follows a failure; ``retries`` is how often the model is asked once more before it is left.

    ``end`` is what follows the retries: the next model, or nothing.
    """

    action: Action
    retries: int = 0
    end: Action = "fallback"


def decide(
    failure: Failure, settings: Settings, *, agent: str | None = None, provider: str | None = None
) -> Verdict:
    """Return what follows a failure of a model of ``provider`` in a turn of ``agent``."""
    own = _own_policy(failure.kind, settings, agent, provider)
    if isinstance(own, str):
        return Verdict(_LEAVES[own])
    if own is not None:
        end = _LEAVES[own.then]
        return Verdict("retry_then_fallback", own.retry, end) if own.retry else Verdict(end)
    action = DEFAULT_POLICY[failure.kind]
    if failure.kind == "overflow" and failure.lasting:
        return Verdict("no_fallback")
    if action != "retry_then_fallback":
        return Verdict(action)
    return Verdict("fallback") if failure.lasting else Verdict(action, RETRIES.get(failure.kind, 0))


def leaves(failure: Failure, verdict: Verdict) -> bool:
    """Tell whether another model is due, once no retry is left.

    An overflow that the host gave up is due for a model with a larger window, if there is one.
    """
    given_up = failure.kind == "overflow" and verdict.action == "no_fallback"
    end = verdict.end if verdict.action == "retry_then_fallback" else verdict.action
    return end == "fallback" or given_up


def _own_policy(
    kind: FailureKind, settings: Settings, agent: str | None, provider: str | None
) -> PolicyAction | None:
    """Return the person's word: an agent's goes before a provider's, and that before the general one."""
    of_agent = settings.agents.get(agent.strip().lower()) if agent else None
    of_provider = settings.providers.get(provider) if provider else None
    for table in (of_agent, of_provider, settings.fallback):
        if table is not None and kind in table.policy:
            return table.policy[kind]
    return None
