"""What is done about each kind of failure."""

import pytest

from fallback_plugin.fallback.policy import DEFAULT_POLICY, action_for
from fallback_plugin.settings import FAILURE_KINDS, FailureKind, PolicyAction

LEAVES_THE_MODEL: tuple[FailureKind, ...] = (
    "rate_limit",
    "quota",
    "billing",
    "concurrency",
    "overload",
    "server",
    "transport",
    "timeout",
    "empty",
    "auth",
    "model_not_found",
)
ENDS_THE_TURN: tuple[FailureKind, ...] = ("content_policy", "bad_request", "certificate")


def test_every_kind_has_an_action() -> None:
    assert set(DEFAULT_POLICY) == set(FAILURE_KINDS)


@pytest.mark.parametrize("kind", LEAVES_THE_MODEL)
def test_what_another_model_can_help_with_moves_on(kind: FailureKind) -> None:
    assert action_for(kind, {}) == "fallback"


@pytest.mark.parametrize("kind", ENDS_THE_TURN)
def test_what_every_model_would_refuse_stops(kind: FailureKind) -> None:
    assert action_for(kind, {}) == "stop"


def test_an_overflow_is_left_to_the_hosts_compaction() -> None:
    assert action_for("overflow", {}) == "compact"


def test_an_unknown_failure_is_not_a_reason_to_leave_at_once() -> None:
    assert action_for("unknown", {}) == "retry_then_fallback"


@pytest.mark.parametrize("action", ["fallback", "stop", "ignore"])
@pytest.mark.parametrize("kind", FAILURE_KINDS)
def test_the_users_word_goes_first(kind: FailureKind, action: PolicyAction) -> None:
    assert action_for(kind, {kind: action}) == action


def test_an_override_of_one_kind_leaves_the_others_alone() -> None:
    assert action_for("quota", {"rate_limit": "stop"}) == "fallback"
