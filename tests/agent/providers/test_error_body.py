"""Errors are found wherever providers put them, and nothing that belongs to an answer is taken for one."""

import json

import pytest

from fallback_plugin.agent.providers.error_body import error_in, error_message, error_under_success
from fallback_plugin.fallback.classify import classify


def kind_of(value: object, event: str = "", *, is_whole: bool = False) -> str | None:
    found = error_in(json.loads(json.dumps(value)), event=event, is_whole=is_whole)
    return None if found is None else classify(error_under_success(found, {}), 0.0).kind


@pytest.mark.parametrize(
    ("value", "event", "kind"),
    [
        ({"error": {"message": "Incorrect API key provided.", "code": "invalid_api_key"}}, "", "auth"),
        ({"error": {"message": "slow down", "code": 429}}, "", "rate_limit"),
        ({"error": "Rate limit reached for requests"}, "", "rate_limit"),
        ([{"error": {"code": 429, "message": "x", "status": "RESOURCE_EXHAUSTED"}}], "", "rate_limit"),
        (
            {"code": "InvalidApiKey", "message": "Invalid API-key provided.", "request_id": "r"},
            "error",
            "auth",
        ),
        ({"code": "InvalidApiKey", "message": "Invalid API-key provided.", "request_id": "r"}, "", "auth"),
        (
            {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}},
            "error",
            "overload",
        ),
        ({"object": "error", "message": "The model is overloaded", "code": 503}, "", "overload"),
        ({"choices": None, "base_resp": {"status_code": 1002, "status_msg": "rate limit"}}, "", "rate_limit"),
        ({"choices": None, "base_resp": {"status_code": 1004, "status_msg": "login fail"}}, "", "auth"),
        (
            {
                "choices": [
                    {"delta": {}, "finish_reason": "error", "error": {"code": 429, "message": "limit"}}
                ]
            },
            "",
            "rate_limit",
        ),
        ("Too many requests", "error", "rate_limit"),
    ],
)
def test_P14_an_error_under_status_200_is_what_it_is(value: object, event: str, kind: str) -> None:
    assert kind_of(value, event) == kind


@pytest.mark.parametrize("value", [{"detail": "Invalid API key"}, {"message": "Invalid API key"}])
def test_P14_a_whole_body_of_words_is_an_error(value: object) -> None:
    assert kind_of(value) is None
    assert kind_of(value, is_whole=True) == "auth"


@pytest.mark.parametrize(
    "value",
    [
        None,
        7,
        [],
        {},
        {"choices": []},
        {"choices": [], "usage": {"prompt_tokens": 1}},
        {"choices": [{"delta": {"content": "x"}, "error": None}], "error": None},
        {"choices": [{"delta": {"content": "x"}}], "base_resp": {"status_code": 0, "status_msg": "success"}},
        {"choices": [{"message": {"content": "x"}}], "message": "done", "code": 200},
        {"message": "ok", "code": 0},
        {"message": {"role": "assistant", "content": "x"}},
        {"type": "ping"},
    ],
)
def test_P14_what_is_no_error_is_none(value: object) -> None:
    assert error_in(value) is None
    assert value is None or error_in(value, event="ping") is None


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({"error": {"message": "a"}}, "a"),
        ({"error": "a"}, "a"),
        ({"message": "a"}, "a"),
        ({"detail": [{"loc": ["body"], "msg": "a"}]}, "a"),
        ([{"error": {"message": "a"}}], "a"),
        ({"errors": [{"message": "a"}, {"message": "b"}]}, "a"),
        ({"base_resp": {"status_code": 1004, "status_msg": "a"}}, "a"),
        ({"code": 1}, None),
        (None, None),
    ],
)
def test_an_errors_words_are_found(body: object, said: str | None) -> None:
    assert error_message(body) == said


def test_P14_the_providers_words_and_headers_stay() -> None:
    error = error_under_success({"code": 401, "message": "no key"}, {"Retry-After": "7"})

    assert (error.message, error.is_retryable, error.status_code) == ("no key", False, None)
    assert error.response_headers == {"retry-after": "7"}
    assert json.loads(error.response_body or "") == {"code": 401, "message": "no key"}
