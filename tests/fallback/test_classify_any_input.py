"""Nothing a host or provider sends makes the classifier raise or hang."""

from typing import Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fallback_plugin.events import HostError
from fallback_plugin.fallback.classify import classify
from fallback_plugin.fallback.evidence import MAX_TEXT
from fallback_plugin.settings import FAILURE_KINDS, Rule
from fallback_plugin.wire.error import read_error
from tests.fallback.failures import NOW, api_error, kind, retry

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


@pytest.mark.timeout(120)
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

    failure = classify(error, NOW, rules=[Rule(pattern="house", kind="quota")])

    assert failure.kind in FAILURE_KINDS


@pytest.mark.timeout(120)
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
