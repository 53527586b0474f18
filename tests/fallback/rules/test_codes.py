"""What the codes in a provider's error object mean, and where they are found."""

from typing import Final

import pytest

from fallback_plugin.fallback.classify import classify
from fallback_plugin.fallback.rules.order import RULES
from fallback_plugin.fallback.rules.rule import BuiltIn
from tests.fallback.failures import NOW, api_error, kind, retry

CODES: Final = [(code, row) for row in RULES for code in sorted(row.codes)]


def status_for(row: BuiltIn) -> int | None:
    """Return a status under which the row's codes count."""
    return min(row.only_statuses or row.statuses, default=None)


@pytest.mark.parametrize(("code", "row"), CODES, ids=[f"{code}-{row.kind}" for code, row in CODES])
@pytest.mark.parametrize("key", ["code", "type", "status"])
def test_a_providers_code_decides_wherever_it_stands(key: str, code: str, row: BuiltIn) -> None:
    provider = row.providers[0] if row.providers else None
    body = {"error": {key: code.upper(), "message": "failed"}}

    failure = classify(api_error("failed", status_for(row), body), NOW, provider=provider)

    assert (failure.kind, failure.provider_code) == (row.kind, code)
    assert failure.evidence == row.name


@pytest.mark.parametrize("code", [code for code, row in CODES if row.providers and code.isdigit()])
def test_a_bare_number_of_one_provider_means_nothing_at_another(code: str) -> None:
    failure = classify(api_error("failed", 418, {"error": {"code": code}}), NOW, provider="somebody")

    assert failure.evidence == "status:418"


@pytest.mark.parametrize(
    "body",
    [
        {"error": {"type": "overloaded_error", "message": "Overloaded"}},
        {"type": "error", "error": {"type": "overloaded_error"}},
        {"type": "overloaded_error"},
        {"code": "overloaded_error", "error": "an explanation"},
        {"error": {"error": {"error": {"type": "overloaded_error"}}}},
        {"error": {"message": '{"error":{"type":"overloaded_error"}}'}},
        {"detail": [{"type": "overloaded_error"}]},
        {"error": {"metadata": {"raw": '{"type":"overloaded_error"}'}}},
    ],
)
def test_a_code_is_found_in_every_shape_of_error_body(body: object) -> None:
    assert kind("", 500, body) == "overload"


def test_a_code_is_found_in_a_message_that_is_json() -> None:
    assert retry('{"message":"slow down","type":"rate_limit_error","code":429}').kind == "rate_limit"


@pytest.mark.parametrize(
    "text",
    ['Service Unavailable: {"error":{"type":"insufficient_quota"}}', '{"type":"insufficient_quota"} (2)'],
)
def test_a_code_is_found_in_json_with_a_few_words_around_it(text: str) -> None:
    assert retry(text).kind == "quota"


@pytest.mark.parametrize(
    "text", ["server_is_overloaded", "ThrottlingException: slow", "code: invalid_api_key"]
)
def test_a_code_is_found_in_prose(text: str) -> None:
    assert retry(text).kind in {"overload", "rate_limit", "auth"}


def test_an_unknown_code_is_kept_and_leaves_the_word_to_the_status() -> None:
    failure = classify(api_error("", 429, {"error": {"code": "E42"}}), NOW)

    assert (failure.kind, failure.provider_code) == ("rate_limit", "e42")


@pytest.mark.parametrize("code", [None, True, {}, []])
def test_a_code_that_is_no_code_is_passed_over(code: object) -> None:
    assert classify(api_error("", 500, {"error": {"code": code}}), NOW).provider_code is None


def test_a_status_that_only_the_body_tells_counts() -> None:
    assert classify(api_error("", None, {"error": {"code": 402}}), NOW).http_status == 402
