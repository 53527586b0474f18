"""The host's error object, of which nothing may be lost and nothing may be required."""

from typing import Any

import pytest

from fallback_plugin.events import HostError
from fallback_plugin.wire.error import read_error, write_error


def api_error(**data: Any) -> HostError:
    return read_error({"name": "APIError", "data": {"message": "no", **data}})


def test_an_error_of_a_provider_is_read_whole() -> None:
    found = api_error(
        statusCode=429,
        isRetryable=True,
        responseBody='{"error":{}}',
        responseHeaders={"Retry-After": "5", "X-Request-Id": "1"},
        metadata={"url": "http://127.0.0.1/v1"},
    )

    assert found == HostError(
        name="APIError",
        message="no",
        status_code=429,
        is_retryable=True,
        response_body='{"error":{}}',
        response_headers={"retry-after": "5", "x-request-id": "1"},
    )


@pytest.mark.parametrize(
    "name",
    [
        "ProviderAuthError",
        "UnknownError",
        "MessageOutputLengthError",
        "MessageAbortedError",
        "StructuredOutputError",
        "ContextOverflowError",
        "ContentFilterError",
        "APIError",
    ],
)
def test_every_error_of_the_host_keeps_its_name(name: str) -> None:
    assert read_error({"name": name, "data": {"message": "no"}}).name == name


@pytest.mark.parametrize("raw", [None, 7, [], {}, {"data": None}, {"name": 7}, {"name": "", "data": []}])
def test_an_error_that_says_nothing_is_an_unknown_one(raw: object) -> None:
    assert read_error(raw) == HostError(name="UnknownError")


def test_an_error_that_is_only_text_keeps_its_text() -> None:
    assert read_error("boom") == HostError(name="UnknownError", message="boom")


def test_a_message_beside_the_name_is_read_too() -> None:
    assert read_error({"name": "Error", "message": "boom"}).message == "boom"


def test_the_message_inside_goes_before_the_one_beside_the_name() -> None:
    assert read_error({"name": "Error", "message": "outer", "data": {"message": "inner"}}).message == "inner"


@pytest.mark.parametrize("status", ["429", 429.5, True, None, [429]])
def test_a_status_that_is_no_whole_number_is_unknown(status: object) -> None:
    assert api_error(statusCode=status).status_code is None


@pytest.mark.parametrize("retryable", ["true", 1, None])
def test_whether_to_retry_is_unknown_unless_the_host_says_so(retryable: object) -> None:
    assert api_error(isRetryable=retryable).is_retryable is None


def test_not_to_retry_is_not_the_same_as_unknown() -> None:
    assert api_error(isRetryable=False).is_retryable is False


@pytest.mark.parametrize("headers", [None, [], "retry-after: 5"])
def test_headers_of_another_shape_are_none(headers: object) -> None:
    assert api_error(responseHeaders=headers).response_headers == {}


def test_a_header_that_is_no_text_becomes_text() -> None:
    assert api_error(responseHeaders={"Retry-After": 5}).response_headers == {"retry-after": "5"}


def test_what_is_written_is_read_back() -> None:
    error = HostError(
        name="APIError",
        message="no",
        status_code=429,
        is_retryable=True,
        response_body="body",
        response_headers={"retry-after": "5"},
    )

    assert read_error(write_error(error)) == error


def test_only_what_the_hosts_schema_has_is_written() -> None:
    error = HostError(
        name="UnknownError", message="no", status_code=500, is_retryable=True, response_body="body"
    )

    assert write_error(error) == {"name": "UnknownError", "data": {"message": "no"}}
    assert write_error(HostError(name="APIError", message="no")) == {
        "name": "APIError",
        "data": {"message": "no", "isRetryable": False},
    }
