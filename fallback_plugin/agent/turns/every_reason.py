"""What a turn says that no model could answer: every model's reason, not the last one's alone."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Final, NamedTuple, TypeAlias, cast, get_args

from fallback_plugin.agent.providers.failure import ModelFailedError
from fallback_plugin.events import HostError
from fallback_plugin.fallback.classify import Failure
from fallback_plugin.fallback.toasts import KIND_WORDS, describe
from fallback_plugin.health.closure import Closure
from fallback_plugin.model_ref import ModelRef
from fallback_plugin.settings import FailureKind

ChainOf: TypeAlias = Callable[[str], Sequence[ModelRef]]
"""Tells the models that an agent's turn may go to."""


class ModelFailure(NamedTuple):
    """A model's failure, and what it is taken for."""

    error: ModelFailedError
    seen: Failure


LONGEST_WORDS: Final = 300
"""Characters of a provider's own words that are kept, of each model."""

_KINDS: Final = frozenset(get_args(FailureKind))


def every_reason(
    failed: Mapping[ModelRef, ModelFailure], others: Mapping[ModelRef, Closure | str | None]
) -> HostError:
    """Return the last model's error with a line for each model that failed or was not asked.

    Where one model failed and nothing kept the others from being asked, its error is returned as it is: it
    was not one for which another model is asked.

    Args:
        failed: what each model failed of, the last one last.
        others: the models that were not asked, and what closes them or else keeps them from being asked; None
            where nothing does.
    """
    *_, last = failed.values()
    if len(failed) == 1 and not any(others.values()):
        return last.error.error
    lines = [
        "No model could answer.",
        *(f"{model}: {describe(of.seen)}{_words(of.error.error)}" for model, of in failed.items()),
        *(f"{model}: not asked{_obstacle(obstacle)}" for model, obstacle in others.items()),
    ]
    return replace(last.error.error, message="\n".join(lines))


def _words(error: HostError) -> str:
    words = " ".join(error.message.split())
    cut = words[:LONGEST_WORDS] + ("…" if len(words) > LONGEST_WORDS else "")
    return f". {cut}" if cut else ""


def _obstacle(obstacle: Closure | str | None) -> str:
    if isinstance(obstacle, Closure):
        return f", {_reason(obstacle)} and closed until {_clock(obstacle)}"
    return f", {obstacle}" if obstacle else ""


def _reason(closure: Closure) -> str:
    known = closure.reason in _KINDS
    return KIND_WORDS[cast("FailureKind", closure.reason)] if known else closure.reason


def _clock(closure: Closure) -> str:
    return datetime.fromtimestamp(closure.until).astimezone().strftime("%H:%M")
