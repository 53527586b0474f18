"""What a turn says that no model could answer: every model's reason, not the last one's alone."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Final, TypeAlias, cast, get_args

from fallback_plugin.agent.providers.failure import ModelFailedError
from fallback_plugin.events import HostError
from fallback_plugin.fallback.classify import Failure
from fallback_plugin.fallback.toasts import KIND_WORDS, describe
from fallback_plugin.health.closure import Closure
from fallback_plugin.model_ref import ModelRef
from fallback_plugin.settings import FailureKind

ChainOf: TypeAlias = Callable[[str], Sequence[ModelRef]]
"""Tells the models that an agent's turn may go to."""

LONGEST_WORDS: Final = 300
"""Characters of a provider's own words that are kept, of each model."""

_KINDS: Final = frozenset(get_args(FailureKind))


def every_reason(
    failed: Sequence[tuple[ModelRef, ModelFailedError, Failure]], closed: Sequence[tuple[ModelRef, Closure]]
) -> HostError:
    """Return the last model's error with a line for each model that failed or was not asked.

    Where only one model comes into question, its error is returned as it is.
    """
    last = failed[-1][1].error
    if len(failed) == 1 and not closed:
        return last
    lines = [
        "No model could answer.",
        *(f"{model}: {describe(failure)}{_words(error.error)}" for model, error, failure in failed),
        *(
            f"{model}: not asked, {_reason(closure)} and closed until {_clock(closure)}"
            for model, closure in closed
        ),
    ]
    return replace(last, message="\n".join(lines))


def _words(error: HostError) -> str:
    words = " ".join(error.message.split())
    cut = words[:LONGEST_WORDS] + ("…" if len(words) > LONGEST_WORDS else "")
    return f". {cut}" if cut else ""


def _reason(closure: Closure) -> str:
    known = closure.reason in _KINDS
    return KIND_WORDS[cast("FailureKind", closure.reason)] if known else closure.reason


def _clock(closure: Closure) -> str:
    return datetime.fromtimestamp(closure.until).astimezone().strftime("%H:%M")
