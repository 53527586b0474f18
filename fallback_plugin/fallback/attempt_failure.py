"""What a request to a model failed of, whether its provider found words for it or not."""

from collections.abc import Iterable, Mapping
from typing import Final

from fallback_plugin.events import Ending, HostError
from fallback_plugin.fallback.classify import Failure, classify
from fallback_plugin.model_ref import ModelRef
from fallback_plugin.settings import FailureKind, Rule

_UNSAID: Final[Mapping[Ending, FailureKind]] = {
    "empty": "empty_response",
    "cut": "transport",
    "silent": "timeout",
    "broken": "transport",
}
"""The kinds of failures that have no words."""

_CUT_OFF: Final = frozenset[Ending]({"cut", "broken"})


def attempt_failure(
    model: ModelRef, error: HostError, ending: Ending, now: float, *, rules: Iterable[Rule] = ()
) -> Failure:
    """Return the failure of a request to ``model`` that ended so; ``rules`` are the user's own.

    What a provider itself says of an answer it breaks off tells why. How the connection ended tells no more
    than that it did.
    """
    kind = _UNSAID.get(ending)
    if kind is not None and not (ending == "broken" and error.response_body):
        return Failure(kind=kind, evidence=f"request: {ending}", cut_off=ending in _CUT_OFF)
    return classify(error, now, rules=rules, provider=model.provider)
