"""Why a model failed: which evidence goes before which, and what a failure carries."""

from typing import Final

import pytest
from pydantic import ValidationError

from fallback_plugin.events import HostError
from fallback_plugin.fallback.classify import Failure, classify
from fallback_plugin.fallback.rules.host import NAMES
from fallback_plugin.settings import FailureKind, Rule
from fallback_plugin.wire.error import read_error
from tests.fallback.failures import NOW, api_error, is_left_at_once, kind


def rule(pattern: str, kind: FailureKind = "quota") -> Rule:
    return Rule(pattern=pattern, kind=kind)


def test_the_hosts_status_goes_before_one_in_the_text() -> None:
    failure = classify(api_error("upstream said: status 503", 401), NOW)

    assert (failure.kind, failure.http_status) == ("auth", 401)


@pytest.mark.parametrize(
    ("name", "expected"), [(name, row.kind) for row in NAMES if not row.phrase for name in sorted(row.codes)]
)
def test_an_error_name_that_says_it_all_decides(name: str, expected: FailureKind) -> None:
    assert classify(HostError(name=name), NOW).kind == expected


def test_a_missing_key_is_known_by_its_name_without_any_text() -> None:
    assert classify(HostError(name="AI_LoadAPIKeyError"), NOW).evidence == "name:ai_loadapikeyerror"


@pytest.mark.parametrize("name", ["APIError", "UnknownError", "", "RateLimit"])
def test_other_names_decide_nothing(name: str) -> None:
    assert classify(HostError(name=name), NOW).kind == "unknown"


LAYERS: Final = {
    "name": HostError(
        name="ContextOverflowError",
        message="rate limit",
        status_code=401,
        response_body='{"error":{"code":"insufficient_quota"}}',
    ),
    "rule": HostError(
        name="APIError",
        message="rate limit",
        status_code=401,
        response_body='{"error":{"code":"insufficient_quota"}}',
    ),
}


@pytest.mark.parametrize(("layer", "expected"), [("name", "overflow"), ("rule", "concurrency")])
def test_the_hosts_name_goes_before_the_users_rule_and_that_before_all_else(
    layer: str, expected: FailureKind
) -> None:
    rules = [rule("rate limit", "concurrency")]

    failure = classify(LAYERS[layer], NOW, rules=rules)

    assert (failure.kind, failure.evidence.partition(":")[0]) == (expected, layer)


def test_a_users_rule_goes_before_status_and_phrase() -> None:
    failure = classify(api_error("rate limit", 429), NOW, rules=[rule("rate", "concurrency")])

    assert failure.kind == "concurrency"


def test_without_a_match_of_the_users_rules_ours_apply() -> None:
    assert classify(api_error("rate limit"), NOW, rules=[rule("never seen")]).kind == "rate_limit"


def test_the_first_of_the_users_rules_that_matches_wins() -> None:
    rules = [rule("nothing"), rule("house rule", "billing"), rule("house", "server")]

    assert classify(api_error("House rule 7"), NOW, rules=rules).kind == "billing"


@pytest.mark.parametrize("pattern", ["house rule", "House Rule", "HOUSE RULE", r"h\w+ RULE \d"])
def test_a_users_rule_does_not_regard_case(pattern: str) -> None:
    assert classify(api_error("House rule 7"), NOW, rules=[rule(pattern)]).kind == "quota"


def test_a_users_rule_is_searched_in_the_providers_body_too() -> None:
    assert classify(api_error("failed", 500, "House rule 7"), NOW, rules=[rule("house rule")]).kind == "quota"


@pytest.mark.parametrize("pattern", ["", "(", "[a", "*"], ids=["empty", "group", "set", "star"])
def test_a_users_rule_that_is_no_pattern_is_refused_before_it_gets_here(pattern: str) -> None:
    with pytest.raises(ValidationError):
        Rule(pattern=pattern, kind="quota")


@pytest.mark.parametrize(
    ("status", "message", "expected"),
    [
        (429, "Insufficient balance", "billing"),
        (429, "You exceeded your current quota", "quota"),
        (429, "Monthly usage limit reached", "quota"),
        (403, "Quota exceeded", "quota"),
        (403, "Insufficient credits", "billing"),
        (401, "Insufficient balance", "billing"),
        (400, "Your credit balance is too low", "billing"),
        (400, "Rate limit reached", "rate_limit"),
        (400, "Too many requests", "rate_limit"),
        (400, "model is not supported", "model_not_found"),
        (400, "API key not valid", "auth"),
        (400, "maximum context length is 8192 tokens", "overflow"),
        (400, "prompt is too long: 210000 tokens", "overflow"),
        (500, "Overloaded", "overload"),
        (429, "Overloaded", "overload"),
        (503, "model not found", "model_not_found"),
        (403, "Too many requests", "rate_limit"),
        (500, "model not found", "model_not_found"),
        (502, "Rate limit reached", "rate_limit"),
        (404, "Insufficient credits", "billing"),
    ],
)
def test_a_phrase_makes_a_status_more_exact(status: int, message: str, expected: FailureKind) -> None:
    assert kind(message, status) == expected


@pytest.mark.parametrize(
    ("status", "message", "expected"),
    [
        (429, "Too many tokens in the context window, please wait", "rate_limit"),
        (402, "Rate limit reached", "billing"),
        (400, "Please try again later", "bad_request"),
        (413, "Too many requests", "overflow"),
    ],
)
def test_a_phrase_does_not_turn_a_status_into_something_else(
    status: int, message: str, expected: FailureKind
) -> None:
    assert kind(message, status) == expected


def test_an_overflow_goes_before_a_rate_limit_in_a_refused_request() -> None:
    assert kind("context length exceeded, see our rate limits", 400) == "overflow"


def test_a_phrase_in_the_providers_body_counts_like_one_in_the_message() -> None:
    assert kind("Bad Request", 400, "<p>Your credit balance is too low</p>") == "billing"


def test_a_failure_under_a_good_status_is_known_by_its_text() -> None:
    assert kind("rate limit", 200) == "rate_limit"


@pytest.mark.parametrize(
    ("error", "evidence"),
    [
        (HostError(name="ContentFilterError"), "name:contentfiltererror"),
        (api_error("", 429, {"error": {"code": "model_cooldown"}}), "code:model_cooldown"),
        (api_error("", 503), "status:503"),
        (
            api_error("the key limit exceeded its end"),
            "phrase:usage limit|usage (?:has been )?exceeded|limit exhausted|key lim…",
        ),
        (api_error("no idea"), ""),
    ],
)
def test_a_failure_names_what_decided(error: HostError, evidence: str) -> None:
    assert classify(error, NOW).evidence == evidence


def test_the_wait_comes_from_the_headers() -> None:
    assert classify(api_error("", 429, None, retry_after="3600"), NOW).retry_after_s == 3600


@pytest.mark.parametrize(
    ("kind", "host_waits_s", "expected"),
    [
        ("rate_limit", 2, 2),
        ("server", 30, 30),
        ("quota", 2, None),
        ("quota", 3600, 3600),
        ("billing", 40, None),
        ("model_not_found", 3600, None),
        ("auth", 3600, None),
        ("rate_limit", 1e12, None),
        ("rate_limit", -1, None),
    ],
)
def test_the_hosts_own_wait_counts_where_it_says_something_about_the_model(
    kind: FailureKind, host_waits_s: float, expected: float | None
) -> None:
    assert Failure(kind=kind).with_host_wait(host_waits_s).retry_after_s == expected


def test_a_failure_keeps_all_else_when_a_wait_is_learnt() -> None:
    failure = classify(api_error("", 429), NOW)

    assert failure.with_host_wait(60.0) == Failure(
        kind="rate_limit", http_status=429, evidence="status:429", retry_after_s=60.0
    )


def test_a_provider_that_told_its_wait_is_believed_more_than_the_host() -> None:
    assert Failure(kind="rate_limit", retry_after_s=5).with_host_wait(30).retry_after_s == 5


@pytest.mark.parametrize(("wait_s", "lasting"), [(60, False), (60.1, True)])
def test_a_long_wait_is_not_worth_a_persons_patience(wait_s: float, *, lasting: bool) -> None:
    assert classify(api_error("", 429, None, retry_after=str(wait_s)), NOW).lasting is lasting
    assert Failure(kind="rate_limit").with_host_wait(wait_s).lasting is lasting


def test_a_usage_limit_closes_the_model_for_as_long_as_the_provider_says() -> None:
    body = {"error": {"type": "usage_limit_reached"}}

    failure = classify(api_error("limit", 429, body, retry_after="7200"), NOW)

    assert (failure.kind, failure.retry_after_s) == ("quota", 7200)


def test_a_429_is_left_at_once_whatever_money_it_is_about() -> None:
    message = "This request would exceed your account's monthly spend limit"

    assert is_left_at_once(classify(api_error(message, 429), NOW))


def test_a_message_inside_the_error_goes_before_one_around_it() -> None:
    raw = {"name": "APIError", "message": "rate limit", "data": {"message": "Insufficient balance"}}

    assert classify(read_error(raw), NOW).kind == "billing"


@pytest.mark.parametrize("name", ["ProviderAuthError", "AI_LoadAPIKeyError", "ProviderModelNotFoundError"])
def test_what_this_process_never_asked_says_so(name: str) -> None:
    assert classify(HostError(name=name), NOW).local


def test_a_key_that_was_refused_was_asked_with() -> None:
    assert not classify(HostError(name="APIError", status_code=401), NOW).local
