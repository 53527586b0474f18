"""Why a model failed: each kind of evidence, which goes before which, and what is no evidence at all."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from fallback_plugin.events import HostError, SessionError, SessionStatus
from fallback_plugin.fallback.classify import MAX_TEXT, NAME_KINDS, Failure, classify
from fallback_plugin.fallback.policy import action_for
from fallback_plugin.fallback.rules.codes import CODE_KINDS
from fallback_plugin.fallback.rules.statuses import STATUS_KINDS
from fallback_plugin.settings import FAILURE_KINDS, FailureKind, Rule
from fallback_plugin.wire.error import read_error
from fallback_plugin.wire.event import read_event

RECORDINGS: Final = Path(__file__).parents[1] / "opencode" / "recordings"
NOW: Final = 1_000.0

STATUSES: Final[dict[int, FailureKind]] = {
    400: "bad_request",
    401: "auth",
    402: "billing",
    403: "auth",
    404: "model_not_found",
    408: "timeout",
    413: "overflow",
    415: "bad_request",
    422: "bad_request",
    424: "server",
    425: "server",
    429: "rate_limit",
    451: "content_policy",
    498: "auth",
    500: "server",
    502: "server",
    503: "overload",
    504: "timeout",
    524: "timeout",
    529: "overload",
}


def api_error(
    message: str = "", status: int | None = None, body: object = None, name: str = "APIError", **headers: str
) -> HostError:
    return HostError(
        name=name,
        message=message,
        status_code=status,
        response_body=body if isinstance(body, str) or body is None else json.dumps(body),
        response_headers={key.replace("_", "-"): value for key, value in headers.items()},
    )


def retry(message: str) -> Failure:
    """Classify the text of a retry status, which comes without anything else."""
    return classify(HostError(name="", message=message), NOW)


def kind(message: str = "", status: int | None = None, body: object = None) -> FailureKind:
    return classify(api_error(message, status, body), NOW).kind


def rule(pattern: str, kind: FailureKind = "quota") -> Rule:
    return Rule(pattern=pattern, kind=kind)


@pytest.mark.parametrize(("status", "expected"), STATUSES.items())
def test_a_status_alone_decides(status: int, expected: FailureKind) -> None:
    assert kind(status=status) == expected


def test_every_status_of_the_table_is_shown_here() -> None:
    assert set(STATUSES) == set(STATUS_KINDS)


@pytest.mark.parametrize(
    ("status", "expected"), [(418, "bad_request"), (499, "bad_request"), (520, "server"), (599, "server")]
)
def test_a_status_that_is_not_in_the_table_counts_as_its_class(status: int, expected: FailureKind) -> None:
    assert kind(status=status) == expected


@pytest.mark.parametrize("status", [0, 100, 200, 204, 301, 304, 999, -1])
def test_a_status_that_is_no_failure_decides_nothing(status: int) -> None:
    assert kind(status=status) == "unknown"


@pytest.mark.parametrize("status", [401, 402, 404, 429, 500, 502, 503, 504, 529])
def test_the_model_is_left_for_every_status_another_model_may_not_give(status: int) -> None:
    assert action_for(kind("whatever it says", status), {}) == "fallback"


@pytest.mark.parametrize("status", [400, 415, 422])
def test_a_refused_request_does_not_advance_the_chain(status: int) -> None:
    assert action_for(kind("Invalid value for 'tools[0]'", status), {}) == "stop"


def test_a_user_may_keep_an_auth_failure_from_advancing_the_chain() -> None:
    assert action_for(kind("Unauthorized", 401), {"auth": "stop"}) == "stop"


def test_a_failure_carries_the_status_it_was_read_from() -> None:
    assert classify(api_error("Too Many Requests", 429), NOW).http_status == 429


@pytest.mark.parametrize(
    ("message", "status"),
    [
        ("attempt 2 of 5 failed with status 503", 503),
        ("Request failed with status code 429", 429),
        ("Error: 429 rate limited", 429),
        ("HTTP 502", 502),
        ("HTTP/1.1 504 Gateway Timeout", 504),
        ("[503] The request queue is full.", 503),
        ("529 overloaded", 529),
        ("upstream answered (status: 500)", 500),
        ("exited with code 401", 401),
        ("error 429", 429),
    ],
)
def test_a_status_is_read_from_prose_where_one_stands(message: str, status: int) -> None:
    assert retry(message).http_status == status


@pytest.mark.parametrize(
    "message",
    [
        "500 tokens left",
        "The limit is 500 tokens",
        "Error: 500 tokens over the budget",
        "500 requests were served",
        "attempt 2 of 5",
        "used 429 of 1000 credits",
        "version 4.5.0",
        "status 5034",
        "status 429.5",
        "status 42",
        "port 50300",
        "[1429]",
        "gpt-503-turbo did something odd",
        "id 529a",
    ],
)
def test_a_bare_number_is_no_status(message: str) -> None:
    failure = retry(message)

    assert (failure.kind, failure.http_status) == ("unknown", None)


def test_the_hosts_status_goes_before_one_in_the_text() -> None:
    failure = classify(api_error("upstream said: status 503", 401), NOW)

    assert (failure.kind, failure.http_status) == ("auth", 401)


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("Rate limit reached for requests", "rate_limit"),
        ("rate-limited by the upstream", "rate_limit"),
        ("Too Many Requests", "rate_limit"),
        ("Quota exceeded for metric", "quota"),
        ("You exceeded your current quota, please check your plan and billing details.", "quota"),
        ("Quota protection is active", "quota"),
        ("All accounts are under quota protection, account 3 included", "quota"),
        ("Key limit exceeded (total limit)", "quota"),
        ("The usage limit has been reached", "quota"),
        ("Service Unavailable", "overload"),
        ("The engine is currently overloaded, please try again later", "overload"),
        ("Temporarily unavailable", "overload"),
        ("Something went wrong. Please try again later.", "server"),
        ("Your credit balance is too low to access the API", "billing"),
        ("credit balance too low", "billing"),
        ("Insufficient credits", "billing"),
        ("Insufficient credit on this account", "billing"),
        ("Insufficient funds", "billing"),
        ("Insufficient Balance", "billing"),
        ("model not found", "model_not_found"),
        ("Model is not supported", "model_not_found"),
        ("The requested model is not available in your region", "model_not_found"),
        ("The model `gpt-9` does not exist or you do not have access to it.", "model_not_found"),
        ("API key is missing. Pass it with apiKey or the OPENAI_API_KEY environment variable.", "auth"),
        ("x-api-key header is required", "auth"),
        ("Missing API key", "auth"),
        ("An API key is required", "auth"),
        ("required header: x-api-key", "auth"),
        ("API key must be a string", "auth"),
        ("Incorrect API key provided: fake.", "auth"),
        ("API key not valid. Please pass a valid API key.", "auth"),
        ("Invalid API key", "auth"),
    ],
)
def test_a_phrase_decides_where_nothing_else_does(message: str, expected: FailureKind) -> None:
    assert retry(message).kind == expected


@pytest.mark.parametrize("kind_of_text", [str.upper, str.lower, str.title])
def test_phrases_are_found_in_any_case(kind_of_text: Any) -> None:
    assert retry(kind_of_text("too many requests")).kind == "rate_limit"


@pytest.mark.parametrize(
    "message",
    [
        "Something unexpected happened",
        "the model thought for a while",
        "the key of the song is unlimited",
        "endlessly waiting",
        "Third-party apps now draw from your extra usage.",
    ],
)
def test_a_text_without_a_known_phrase_is_unknown(message: str) -> None:
    assert retry(message) == Failure(kind="unknown")


@pytest.mark.parametrize("message", ["TLS handshake failed", "ERR_SSL_PROTOCOL", "self-signed certificate"])
def test_a_broken_trust_is_no_reason_to_ask_elsewhere(message: str) -> None:
    assert action_for(retry(message).kind, {}) == "stop"


@pytest.mark.parametrize(("name", "expected"), NAME_KINDS.items())
def test_an_error_name_that_says_it_all_decides(name: str, expected: FailureKind) -> None:
    assert classify(HostError(name=name), NOW).kind == expected


def test_a_missing_key_is_known_by_its_name_without_any_text() -> None:
    assert classify(HostError(name="AI_LoadAPIKeyError"), NOW).evidence == "name:AI_LoadAPIKeyError"


@pytest.mark.parametrize("name", ["APIError", "UnknownError", "", "RateLimit"])
def test_other_names_decide_nothing(name: str) -> None:
    assert classify(HostError(name=name), NOW).kind == "unknown"


@pytest.mark.parametrize(("code", "expected"), CODE_KINDS.items())
@pytest.mark.parametrize("key", ["code", "type", "status"])
def test_a_providers_code_decides_wherever_it_stands(key: str, code: str, expected: FailureKind) -> None:
    failure = classify(api_error("failed", 400, {"error": {key: code.upper()}}), NOW)

    assert (failure.kind, failure.provider_code) == (expected, code)


@pytest.mark.parametrize(
    "body",
    [
        {"error": {"type": "overloaded_error", "message": "Overloaded"}},
        {"type": "error", "error": {"type": "overloaded_error"}},
        {"type": "overloaded_error"},
        {"code": "overloaded_error", "error": "an explanation"},
    ],
)
def test_a_code_is_found_in_every_shape_of_error_body(body: object) -> None:
    assert kind("", 400, body) == "overload"


def test_a_code_is_found_in_a_message_that_is_json() -> None:
    assert retry('{"message":"slow down","type":"rate_limit_error","code":429}').kind == "rate_limit"


def test_a_code_is_found_in_json_behind_a_few_words() -> None:
    assert retry('Service Unavailable: {"error":{"type":"insufficient_quota"}}').kind == "quota"


def test_a_known_code_goes_before_one_that_says_nothing() -> None:
    body = {"error": {"code": "E42", "type": "insufficient_quota"}}

    assert classify(api_error("", 429, body), NOW).provider_code == "insufficient_quota"


def test_an_unknown_code_is_kept_and_leaves_the_word_to_the_status() -> None:
    failure = classify(api_error("", 429, {"error": {"code": "E42"}}), NOW)

    assert (failure.kind, failure.provider_code) == ("rate_limit", "e42")


@pytest.mark.parametrize("code", [429, None, True, ["rate_limit_error"], {}])
def test_a_code_that_is_no_text_is_passed_over(code: object) -> None:
    assert classify(api_error("", 500, {"error": {"code": code}}), NOW).provider_code is None


LAYERS: Final = {
    "name": HostError(
        name="ContextOverflowError",
        message="rate limit",
        status_code=401,
        response_body='{"error":{"code":"insufficient_quota"}}',
    ),
    "code": HostError(
        name="APIError",
        message="rate limit",
        status_code=401,
        response_body='{"error":{"code":"insufficient_quota"}}',
    ),
    "rule": HostError(name="APIError", message="rate limit", status_code=401),
}


@pytest.mark.parametrize(
    ("layer", "expected"), [("name", "overflow"), ("code", "quota"), ("rule", "concurrency")]
)
def test_name_goes_before_code_and_code_before_the_users_rule(layer: str, expected: FailureKind) -> None:
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
        (429, "Overloaded", "rate_limit"),
        (401, "Too many requests", "auth"),
        (402, "Rate limit reached", "billing"),
        (503, "model not found", "overload"),
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
        (HostError(name="ContentFilterError"), "name:ContentFilterError"),
        (api_error("", 400, {"error": {"code": "invalid_api_key"}}), "code:invalid_api_key"),
        (api_error("", 503), "status:503"),
        (api_error("quota exceeded"), "phrase:quota (?:exceeded|protection)|exceeded your current quota"),
        (api_error("no idea"), ""),
    ],
)
def test_a_failure_names_what_decided(error: HostError, evidence: str) -> None:
    assert classify(error, NOW).evidence == evidence


def test_the_wait_comes_from_the_headers() -> None:
    assert classify(api_error("", 429, None, retry_after="3600"), NOW).retry_after_s == 3600


def test_a_wait_learnt_elsewhere_is_capped() -> None:
    assert Failure(kind="quota").waiting(1e9).retry_after_s == 86_400


def test_a_failure_keeps_all_else_when_a_wait_is_learnt() -> None:
    failure = classify(api_error("", 429), NOW)

    assert failure.waiting(60.0) == Failure(
        kind="rate_limit", http_status=429, evidence="status:429", retry_after_s=60.0
    )


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("Free usage exceeded, subscribe to Go", "quota"),
        ("[503] The request queue is full.", "overload"),
        ("Monthly usage limit reached", "quota"),
        ("Model not found: p/m.", "model_not_found"),
        (
            "ProviderModelNotFoundError: Model not found: p/m.\n    at prompt (index.js:1:1)",
            "model_not_found",
        ),
    ],
)
def test_texts_that_other_plugins_missed_leave_the_model(message: str, expected: FailureKind) -> None:
    failure = classify(HostError(name="UnknownError", message=message), NOW)

    assert failure.kind == expected
    assert action_for(failure.kind, {}) == "fallback"


def test_a_usage_limit_closes_the_model_for_as_long_as_the_provider_says() -> None:
    body = {"error": {"type": "usage_limit_reached"}}

    failure = classify(api_error("limit", 429, body, retry_after="7200"), NOW)

    assert (failure.kind, failure.retry_after_s) == ("quota", 7200)


def test_a_429_is_left_at_once_whatever_money_it_is_about() -> None:
    message = "This request would exceed your account's monthly spend limit"

    assert action_for(kind(message, 429), {}) == "fallback"


def test_a_kind_does_not_depend_on_which_model_is_overloaded() -> None:
    kinds = {retry(f"model {name} is overloaded").kind for name in ("glm-4.6", "glm-9", "x")}

    assert kinds == {"overload"}


ODD_ERRORS: Final[dict[str, object]] = {
    "nothing": None,
    "text": "Rate limit reached",
    "blank": "   ",
    "number": 429,
    "list": [429, "rate limit"],
    "empty": {},
    "numeric message": {"name": "APIError", "data": {"message": 429}},
    "null message": {"name": "APIError", "data": {"message": None}},
    "object message": {"name": "APIError", "data": {"message": {"text": "rate limit"}}},
    "status as text": {"name": "APIError", "data": {"message": "x", "statusCode": "429"}},
    "status as truth": {"name": "APIError", "data": {"message": "x", "statusCode": True}},
    "name as number": {"name": 7, "data": {"message": "x"}},
    "headers as list": {"name": "APIError", "data": {"message": "x", "responseHeaders": ["retry-after"]}},
    "header as number": {"name": "APIError", "data": {"message": "x", "responseHeaders": {"Retry-After": 5}}},
}


@pytest.mark.parametrize("raw", ODD_ERRORS.values(), ids=ODD_ERRORS.keys())
def test_an_error_of_any_shape_is_classified(raw: object) -> None:
    assert classify(read_error(raw), NOW).kind in FAILURE_KINDS


def test_an_error_that_contains_itself_is_classified() -> None:
    cyclic: dict[str, Any] = {"name": "APIError"}
    cyclic["data"] = cyclic

    assert classify(read_error(cyclic), NOW).kind == "unknown"


def test_a_message_inside_the_error_goes_before_one_around_it() -> None:
    raw = {"name": "APIError", "message": "rate limit", "data": {"message": "Insufficient balance"}}

    assert classify(read_error(raw), NOW).kind == "billing"


def test_a_phrase_past_what_is_read_does_not_count() -> None:
    assert retry("x" * MAX_TEXT + " rate limit").kind == "unknown"


def test_a_phrase_at_the_beginning_of_a_very_long_text_counts() -> None:
    assert retry("rate limit " + "x" * 1_000_000).kind == "rate_limit"


ONE_MB: Final = 1_000_000
HOSTILE: Final = {
    "open objects": "{" * ONE_MB,
    "open keys": '{"a":' * (ONE_MB // 5),
    "open errors": '{"error":' * (ONE_MB // 9),
    "open lists": "{" + "[" * ONE_MB,
    "unfinished key phrases": "api key " * (ONE_MB // 8),
    "unfinished model phrases": "the model " * (ONE_MB // 10),
    "unfinished balances": "credit balance " * (ONE_MB // 15),
    "margins": " " * ONE_MB,
    "brackets": "[" * ONE_MB,
    "digits": "5" * ONE_MB,
    "words for a status": "status code " * (ONE_MB // 12),
    "a long number": '{"error":{"code":' + "9" * ONE_MB + "}}",
    "letters that grow in lower case": "\u0130" * ONE_MB,
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE.keys())
def test_a_megabyte_of_hostile_text_is_classified_in_time(text: str) -> None:
    failure = classify(api_error(text, None, text, retry_after=text), NOW)

    assert failure.kind in FAILURE_KINDS


TEXTS: Final = st.text() | st.sampled_from(["{", "[", '{"error":', "status 4", "rate limit", "500 "]).flatmap(
    lambda piece: st.text().map(lambda rest: piece + rest)
)


@settings(deadline=None)
@given(
    name=TEXTS,
    message=TEXTS,
    status=st.none() | st.integers(),
    body=st.none() | TEXTS,
    headers=st.dictionaries(st.sampled_from(["retry-after", "retry-after-ms", "x"]), TEXTS),
)
def test_no_error_makes_the_classifier_raise(
    name: str, message: str, status: int | None, body: str | None, headers: dict[str, str]
) -> None:
    error = HostError(
        name=name, message=message, status_code=status, response_body=body, response_headers=headers
    )

    failure = classify(error, NOW, rules=[rule("house")])

    assert failure.kind in FAILURE_KINDS


@settings(deadline=None)
@given(
    st.recursive(
        st.none() | st.booleans() | st.floats() | st.text(),
        lambda inner: (
            st.lists(inner)
            | st.dictionaries(
                st.sampled_from(["error", "code", "type", "status", "name", "data", "message"]), inner
            )
        ),
    )
)
def test_no_error_body_makes_the_classifier_raise(body: object) -> None:
    assert kind(body=body) in FAILURE_KINDS
    assert classify(read_error(body), NOW).kind in FAILURE_KINDS


def recorded_failures(name: str) -> Iterator[Failure]:
    """Classify every error and retry status of a recording, our own aborts left out."""
    for line in (RECORDINGS / f"{name}.jsonl").read_text(encoding="utf-8").splitlines():
        raw = json.loads(line).get("event")
        event = read_event(raw) if raw else None
        if isinstance(event, SessionStatus) and event.status == "retry":
            yield retry(event.message)
        if isinstance(event, SessionError) and not event.error.is_abort:
            yield classify(event.error, NOW)


@pytest.mark.parametrize(
    ("recording", "expected"),
    [
        ("400", "bad_request"),
        ("400-context", "overflow"),
        ("401", "auth"),
        ("402", "billing"),
        ("403", "auth"),
        ("404", "model_not_found"),
        ("429", "rate_limit"),
        ("429-quota", "quota"),
        ("429-retry-after", "rate_limit"),
        ("429-retry-after-date", "rate_limit"),
        ("429-retry-after-long", "rate_limit"),
        ("429-retry-after-ms", "rate_limit"),
        ("500", "server"),
        ("502-html", "server"),
        ("503", "overload"),
        ("529", "overload"),
        ("close", "transport"),
        ("reset", "transport"),
        ("error-first", "rate_limit"),
        ("error-mid", "overload"),
        ("filter", "content_policy"),
        ("timeout-hang", "timeout"),
        ("timeout-hang-after-headers", "timeout"),
        ("timeout-hang-mid", "timeout"),
    ],
)
def test_all_signals_of_a_recorded_failure_are_of_one_kind(recording: str, expected: FailureKind) -> None:
    assert {failure.kind for failure in recorded_failures(recording)} == {expected}
