"""What an answer says of the models that failed before it: kept with it, for whoever looks later."""

from collections.abc import Callable
from typing import Any, Final, TypeAlias

from fallback_plugin.agent.providers.failure import ModelFailedError
from fallback_plugin.fallback.classify import Failure
from fallback_plugin.health.closure import Closure
from fallback_plugin.model_ref import ModelRef

Resting: TypeAlias = Callable[[ModelRef], Closure | None]
"""Tells what closes a model now, None if it may be asked."""

ReadFailure: TypeAlias = Callable[[ModelRef, ModelFailedError], Failure]
"""Tells what a model's failure was."""

LONGEST_MESSAGE: Final = 500


def fallback_note(
    failed: ModelRef, error: ModelFailedError, failure: Failure, following: ModelRef, now_ms: int
) -> dict[str, Any]:
    """Return one switch: ``{failed, next, kind, status, resets, message, time}``, without what is not known.

    ``resets`` is when the provider said that the model may be asked again. What its error says stands in
    ``message``, cut.
    """
    wait_s = failure.retry_after_s
    note = {
        "failed": _written(failed),
        "next": _written(following),
        "kind": failure.kind,
        "status": failure.http_status,
        "resets": None if wait_s is None else now_ms + round(wait_s * 1000),
        "message": error.error.message[:LONGEST_MESSAGE] or None,
        "time": now_ms,
    }
    return {name: value for name, value in note.items() if value is not None}


def resting_note(resting: ModelRef, closure: Closure, following: ModelRef, now_ms: int) -> dict[str, Any]:
    """Return the switch of a prompt that was not sent to ``resting``, since that had failed before."""
    return {
        "failed": _written(resting),
        "next": _written(following),
        "kind": closure.reason,
        "resets": round(closure.until * 1000),
        "time": now_ms,
    }


def gone_note(gone: ModelRef, following: ModelRef, now_ms: int) -> dict[str, Any]:
    """Return the switch of a prompt whose session had a model that the settings do not name any more."""
    return {
        "failed": _written(gone),
        "next": _written(following),
        "kind": "model_not_found",
        "message": f"{gone} is not in [providers]",
        "time": now_ms,
    }


def _written(model: ModelRef) -> dict[str, str]:
    named = {"providerID": model.provider, "modelID": model.model}
    return {**named, "variant": model.variant} if model.variant else named
