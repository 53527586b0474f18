"""What the codes in a provider's error object mean, and where they are found."""

import pytest

from fallback_plugin.fallback.classify import classify
from fallback_plugin.fallback.rules.codes import CODE_KINDS
from fallback_plugin.settings import FailureKind
from tests.fallback.failures import NOW, api_error, kind, retry


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
