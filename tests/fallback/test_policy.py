"""What is done about each kind of failure, and who may say so."""

from typing import Any

import pytest

from fallback_plugin.fallback.classify import Failure
from fallback_plugin.fallback.policy import DEFAULT_POLICY, Verdict, decide
from fallback_plugin.settings import FAILURE_KINDS, FailureKind, Settings
from tests.fallback.failures import is_left_at_once, verdict

LEFT_AT_ONCE: tuple[FailureKind, ...] = (
    "rate_limit",
    "quota",
    "billing",
    "overload",
    "server",
    "transport",
    "timeout",
    "empty_response",
    "auth",
    "model_not_found",
)
ENDS_THE_TURN: tuple[FailureKind, ...] = (
    "tls",
    "content_policy",
    "bad_request",
    "output_length",
    "model_output",
    "host",
    "unsupported_content",
)


def decided(policy: dict[str, Any], failure: Failure, **tables: Any) -> Verdict:
    settings = Settings.model_validate({"fallback": {"policy": policy}, **tables})
    return decide(failure, settings, agent="Build", provider="p")


def test_every_kind_has_an_action() -> None:
    assert set(DEFAULT_POLICY) == set(FAILURE_KINDS)


@pytest.mark.parametrize("kind", LEFT_AT_ONCE)
def test_with_a_candidate_at_hand_no_retry_is_spent(kind: FailureKind) -> None:
    assert is_left_at_once(Failure(kind=kind))


@pytest.mark.parametrize("kind", ["concurrency", "unknown"])
def test_too_much_at_once_and_the_unknown_are_retried_once(kind: FailureKind) -> None:
    assert verdict(Failure(kind=kind)) == Verdict("retry_then_fallback", 1)


@pytest.mark.parametrize("kind", FAILURE_KINDS)
def test_what_a_short_wait_cannot_help_is_never_retried(kind: FailureKind) -> None:
    lasting = verdict(Failure(kind=kind, lasting=True))
    assert lasting.retries == 0
    assert lasting.action != "retry_then_fallback"


@pytest.mark.parametrize("kind", ENDS_THE_TURN)
def test_what_every_model_would_refuse_never_walks_the_chain(kind: FailureKind) -> None:
    assert verdict(Failure(kind=kind)).action == "no_fallback"


@pytest.mark.parametrize("kind", ["user", "abort"])
def test_a_persons_word_is_no_failure(kind: FailureKind) -> None:
    assert verdict(Failure(kind=kind)).action == "user_abort"


def test_an_overflow_is_left_to_the_hosts_compaction_until_that_gives_up() -> None:
    assert verdict(Failure(kind="overflow")).action == "compact"
    assert verdict(Failure(kind="overflow", lasting=True)).action == "no_fallback"


@pytest.mark.parametrize(
    ("own", "expected"),
    [
        ("fallback", Verdict("fallback")),
        ("stop", Verdict("no_fallback")),
        ("ignore", Verdict("no_fallback")),
        ({"retry": 2}, Verdict("retry_then_fallback", 2)),
        ({"retry": 2, "then": "stop"}, Verdict("retry_then_fallback", 2, "no_fallback")),
        ({"retry": 0}, Verdict("fallback")),
        ({"retry": 0, "then": "stop"}, Verdict("no_fallback")),
    ],
)
@pytest.mark.parametrize("kind", FAILURE_KINDS)
def test_the_persons_policy_goes_first(kind: FailureKind, own: object, expected: Verdict) -> None:
    assert decided({kind: own}, Failure(kind=kind)) == expected


def test_an_override_of_one_kind_leaves_the_others_alone() -> None:
    assert decided({"rate_limit": "stop"}, Failure(kind="quota")).action == "fallback"


def test_a_provider_goes_before_the_general_policy_and_an_agent_before_both() -> None:
    general, provider, agent = {"quota": "stop"}, {"quota": {"retry": 3}}, {"quota": "fallback"}
    failure = Failure(kind="quota")
    tables = {"providers": {"p": {"policy": provider}}}
    assert decided(general, failure).action == "no_fallback"
    assert decided(general, failure, **tables) == Verdict("retry_then_fallback", 3)
    assert decided(general, failure, **tables, agents={"build": {"policy": agent}}) == Verdict("fallback")


def test_a_table_that_does_not_name_the_kind_says_nothing() -> None:
    tables = {"providers": {"p": {"policy": {"auth": "stop"}}}, "agents": {"build": {}}}
    assert decided({"quota": "stop"}, Failure(kind="quota"), **tables).action == "no_fallback"
