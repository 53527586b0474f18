"""What the person at the screen is told, and when."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Final

from fallback_plugin.fallback.classify import Failure
from fallback_plugin.fallback.state import PassedOver
from fallback_plugin.model_ref import ModelRef
from fallback_plugin.settings import FailureKind
from fallback_plugin.wire.toast import Toast

KIND_WORDS: Final[Mapping[FailureKind, str]] = {
    "rate_limit": "rate limited",
    "quota": "out of quota",
    "billing": "needs payment",
    "concurrency": "has too many requests open",
    "overload": "overloaded",
    "server": "server error",
    "transport": "connection failed",
    "timeout": "does not answer",
    "empty_response": "answered nothing",
    "auth": "refused the key",
    "model_not_found": "unknown to its provider",
    "overflow": "context too long",
    "unsupported_content": "does not take this content",
    "content_policy": "refused the content",
    "bad_request": "refused the request",
    "output_length": "answer too long",
    "model_output": "answered out of form",
    "tls": "certificate not trusted",
    "host": "not allowed by the host",
    "user": "refused by you",
    "abort": "aborted",
    "unknown": "failed",
}

_CUT_OFF: Final = "answer was cut off"
"""Said in place of the words for the kind: of this failure it is known that the provider was reached."""

_LOCAL: Final[Mapping[FailureKind, str]] = {"auth": "no key is set", "model_not_found": "unknown to the host"}
"""The same where no request was sent."""


def describe(failure: Failure) -> str:
    """Say in a few words what happened, with the status where there is one."""
    words = _CUT_OFF if failure.cut_off else KIND_WORDS[failure.kind]
    if failure.local:
        words = _LOCAL.get(failure.kind, words)
    return f"{words} ({failure.http_status})" if failure.http_status else words


def unsent(failure: Failure) -> str:
    """Say of a local failure that no request was sent, and why."""
    variable = f": the environment variable {failure.variable} holds no key" if failure.variable else ""
    return f"no request was sent, {describe(failure)}{variable}"


def switching(failed: ModelRef, failure: Failure, model: ModelRef) -> Toast:
    """Say at dispatch what failed and what is being tried."""
    return Toast(
        title="Model fallback", message=f"{failed}: {describe(failure)}. Trying {model} …", variant="warning"
    )


def retrying(failed: ModelRef, failure: Failure) -> Toast:
    """Say that a model is asked once more."""
    return Toast(title="Model retry", message=f"{failed}: {describe(failure)}. Once more …", variant="info")


def waiting(model: ModelRef, advice: str | None = None) -> Toast:
    """Say that a slow model is not given up, since no other can answer; ``advice``: how to set a chain."""
    why = f"no fallback_models are in force. {advice}" if advice else "no other model can take over."
    return Toast(
        title="Slow model",
        message=f"{model} is silent. Still waiting: {why}",
        variant="warning",
    )


def switched(model: ModelRef, left: PassedOver | None = None) -> Toast:
    """Say that the new model answers, and of the one it answers for why and until when it rests.

    True only once the new model has produced content.
    """
    why = f" {_row(left)}." if left else ""
    return Toast(title="Model fallback", message=f"Now on {model}.{why}", variant="success", duration_s=5)


def degraded(model: ModelRef, dropped: frozenset[str]) -> Toast:
    """Say which parts of the turn the new model did not get."""
    kinds = ", ".join(sorted(dropped))
    return Toast(title="Message replay", message=f"{model} got the turn without: {kinds}.", variant="warning")


def recovered(model: ModelRef) -> Toast:
    """Say that the primary is in use again."""
    return Toast(title="Model recovered", message=f"Back on {model}.", variant="info", duration_s=3)


def exhausted(unanswered: Sequence[PassedOver]) -> Toast:
    """Say once why each model of the chain did not answer, and which is back first."""
    message = "\n".join(reasons(unanswered))
    return Toast(title="All fallbacks exhausted", message=message, variant="error", duration_s=8)


def reasons(unanswered: Sequence[PassedOver]) -> list[str]:
    """Return a line for each model that did not answer, and one for the first that comes back by itself."""
    lines = [_row(each) for each in unanswered]
    returning = [(each.until, each.model) for each in unanswered if each.until is not None]
    if returning:
        moment, model = min(returning, key=lambda each: each[0])
        lines.append(f"First back: {model} at {_clock(moment)}.")
    return lines


def _row(each: PassedOver) -> str:
    rests = f", rests until {_clock(each.until)}" if each.until is not None else ""
    return f"{each.model}: {each.reason}{rests}"


def redirected(closed: ModelRef, failure: Failure, until: float, model: ModelRef) -> Toast:
    """Say that a prompt goes to another model because its own is closed, why, and until when."""
    return Toast(
        title="Model fallback",
        message=f"{closed}: {describe(failure)}, closed until {_clock(until)}. Asking {model} meanwhile.",
        variant="warning",
    )


def chosen(model: ModelRef, left: ModelRef) -> Toast:
    """Say that a stand-in the user has picked stays, so that a selection that was no choice is seen."""
    return Toast(
        title="Model chosen",
        message=f"Staying on {model}. Pick {left} to go back.",
        variant="info",
        duration_s=3,
    )


def no_chain(failed: ModelRef, failure: Failure, advice: str) -> Toast:
    """Say that nothing can be done because no chain is configured, and where to configure one."""
    return Toast(
        title="No fallback configured",
        message=f"{failed}: {describe(failure)}. {advice}",
        variant="info",
        duration_s=3,
    )


def unlisted(models: Mapping[ModelRef, str | None]) -> Toast:
    """Say that a chain names models that the host does not know, or whose provider is not connected.

    ``models`` holds why a model's provider is not connected, where that is known.
    """
    names = ", ".join(f"{model} ({why})" if why else str(model) for model, why in models.items())
    return Toast(
        title="Fallback models passed over",
        message=f"Not in the host's list: {names}. Connect the provider, or correct fallback.toml.",
        variant="warning",
    )


def stuck(failed: ModelRef, reason: str) -> Toast:
    """Say that a switch was wanted and could not be made."""
    return Toast(title="Fallback failed", message=f"{failed} failed, and {reason}.", variant="error")


def _clock(moment: float) -> str:
    return datetime.fromtimestamp(moment).astimezone().strftime("%H:%M")
