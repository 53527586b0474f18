"""Failures of the real host: all signals of one are of one kind."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from fallback_plugin.events import SessionError, SessionStatus
from fallback_plugin.fallback.classify import Failure, classify
from fallback_plugin.settings import FailureKind
from fallback_plugin.wire.event import read_event
from tests.fallback.failures import NOW, retry

RECORDINGS: Final = Path(__file__).parents[1] / "opencode" / "recordings"


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
        ("timeout-hang", "transport"),
        ("timeout-hang-after-headers", "transport"),
        ("timeout-hang-mid", "transport"),
    ],
)
def test_all_signals_of_a_recorded_failure_are_of_one_kind(recording: str, expected: FailureKind) -> None:
    assert {failure.kind for failure in recorded_failures(recording)} == {expected}
