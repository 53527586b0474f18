"""What a turn says that no model could answer."""

from typing import Final

from fallback_plugin.agent.providers.failure import ModelFailedError
from fallback_plugin.agent.turns.every_reason import LONGEST_WORDS, ModelFailure, every_reason
from fallback_plugin.events import HostError
from fallback_plugin.fallback.classify import Failure
from fallback_plugin.health.closure import Closure
from fallback_plugin.model_ref import ModelRef

FIRST: Final = ModelRef("p", "first")
SECOND: Final = ModelRef("q", "second")
THIRD: Final = ModelRef("q", "third", "high")


def failed(words: str) -> ModelFailedError:
    return ModelFailedError(HostError(name="APIError", message=words, status_code=429), "refused")


LIMITED: Final = Failure(kind="rate_limit", http_status=429)


def test_P10_the_only_model_speaks_for_itself() -> None:
    assert every_reason({FIRST: ModelFailure(failed("Slow down."), LIMITED)}, {}).message == "Slow down."


def test_P10_every_model_that_failed_has_a_line() -> None:
    silent = ModelFailedError(HostError(name="APIError"), "silent")
    error = every_reason(
        {
            FIRST: ModelFailure(silent, Failure(kind="timeout")),
            SECOND: ModelFailure(failed("Slow\ndown."), LIMITED),
        },
        {},
    )
    assert error.message.splitlines() == [
        "No model could answer.",
        "p/first: does not answer",
        "q/second: rate limited (429). Slow down.",
    ]
    assert (error.name, error.status_code) == ("APIError", 429)


def test_P10_so_has_one_that_was_not_asked_because_it_is_closed() -> None:
    closure = Closure(until=1_800_000_000.0, reason="quota", failures=1, closed_at=0.0)
    error = every_reason({FIRST: ModelFailure(failed(""), LIMITED)}, {THIRD: closure})
    assert error.message.splitlines()[2].startswith("q/third:high: not asked, out of quota and closed until ")


def test_one_that_this_host_cannot_ask_has_the_reason_in_its_line() -> None:
    error = every_reason({FIRST: ModelFailure(failed(""), LIMITED)}, {SECOND: "[providers.q] is not set"})
    assert error.message.splitlines()[2] == "q/second: not asked, [providers.q] is not set"


def test_a_model_that_nothing_closes_has_a_line_where_others_have_one() -> None:
    failures = {model: ModelFailure(failed(""), LIMITED) for model in (FIRST, SECOND)}
    assert every_reason(failures, {THIRD: None}).message.splitlines()[3] == "q/third:high: not asked"
    only = {FIRST: ModelFailure(failed("Too long."), Failure(kind="overflow"))}
    assert every_reason(only, {SECOND: None, THIRD: None}).message == "Too long."


def test_P10_a_providers_essay_is_cut() -> None:
    both = {model: ModelFailure(failed("x" * 9999), LIMITED) for model in (FIRST, SECOND)}
    lines = every_reason(both, {}).message.splitlines()
    assert all(len(line) < LONGEST_WORDS + 60 and line.endswith("…") for line in lines[1:])
