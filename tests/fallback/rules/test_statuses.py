"""What each HTTP status stands for when nothing else is known, and what follows."""

from typing import Final

import pytest

from fallback_plugin.fallback.classify import classify
from fallback_plugin.fallback.rules.statuses import STATUS_KINDS
from fallback_plugin.settings import FailureKind
from tests.fallback.failures import NOW, api_error, is_left_at_once, kind, verdict

STATUSES: Final[dict[int, FailureKind]] = {
    400: "bad_request",
    401: "auth",
    402: "billing",
    403: "auth",
    404: "model_not_found",
    408: "transport",
    413: "overflow",
    415: "bad_request",
    422: "bad_request",
    424: "server",
    425: "server",
    429: "rate_limit",
    451: "content_policy",
    498: "overload",
    500: "server",
    502: "server",
    503: "server",
    504: "server",
    524: "server",
    529: "overload",
}


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
    assert is_left_at_once(classify(api_error("whatever it says", status), NOW))


@pytest.mark.parametrize("status", [400, 415, 422])
def test_a_refused_request_does_not_advance_the_chain(status: int) -> None:
    assert verdict(classify(api_error("Invalid value for 'tools[0]'", status), NOW)).action == "no_fallback"


def test_a_failure_carries_the_status_it_was_read_from() -> None:
    assert classify(api_error("Too Many Requests", 429), NOW).http_status == 429
