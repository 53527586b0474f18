"""What the texts of providers mean, and which numbers in them are statuses."""

from collections.abc import Callable

import pytest

from fallback_plugin.events import HostError
from fallback_plugin.fallback.classify import Failure, classify
from fallback_plugin.settings import FailureKind
from tests.fallback.failures import NOW, is_left_at_once, retry, verdict


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
        ("Service Unavailable", "server"),
        ("The engine is currently overloaded, please try again later", "overload"),
        ("The service is temporarily unavailable", "server"),
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
def test_phrases_are_found_in_any_case(kind_of_text: Callable[[str], str]) -> None:
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
    assert verdict(retry(message)).action == "no_fallback"


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
    assert is_left_at_once(failure)


def test_a_kind_does_not_depend_on_which_model_is_overloaded() -> None:
    kinds = {retry(f"model {name} is overloaded").kind for name in ("glm-4.6", "glm-9", "x")}

    assert kinds == {"overload"}
