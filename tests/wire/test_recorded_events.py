"""Every event that was recorded from the real host can be read."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from fallback_plugin.events import Event, MessageUpdated, SessionError, SessionIdle, SessionStatus
from fallback_plugin.wire.event import read_event
from fallback_plugin.wire.message import read_history

OPENCODE: Final = Path(__file__).parents[1] / "opencode"
RECORDINGS: Final = sorted((OPENCODE / "recordings").glob("*.jsonl"))
TRACES: Final = OPENCODE / "host_traces.jsonl"
UNREAD: Final = frozenset({"server.connected", "session.updated", "session.diff", "sync", "tui.toast.show"})
"""Recorded types that this package takes no notice of."""


def lines(file: Path) -> Iterator[dict[str, Any]]:
    return map(json.loads, file.read_text(encoding="utf-8").splitlines())


def recorded(file: Path) -> Iterator[dict[str, Any]]:
    """Yield a recording's raw events; those of the global stream come in an envelope."""
    for line in lines(file):
        if event := line.get("event"):
            yield event.get("payload", event)


def traced() -> Iterator[dict[str, Any]]:
    return (line for line in lines(TRACES) if not line["type"].startswith("HOOK"))


def events(name: str) -> list[Event]:
    return [read_event(raw) for raw in recorded(OPENCODE / "recordings" / f"{name}.jsonl")]


def test_there_are_recordings() -> None:
    assert len(RECORDINGS) == 59


@pytest.mark.parametrize("file", RECORDINGS, ids=lambda file: file.stem)
def test_every_event_of_a_recording_is_read(file: Path) -> None:
    unread = {raw["type"] for raw in recorded(file) if type(read_event(raw)) is Event}

    assert unread <= UNREAD


def test_every_event_of_the_traces_is_read() -> None:
    unread = {raw["type"] for raw in traced() if type(read_event(raw)) is Event}

    assert unread == set()


@pytest.mark.parametrize("file", RECORDINGS, ids=lambda file: file.stem)
def test_every_recorded_event_but_the_servers_own_names_its_session(file: Path) -> None:
    nameless = {raw["type"] for raw in recorded(file) if read_event(raw).session_id is None}

    assert nameless <= {"server.connected", "sync", "tui.toast.show"}


def test_a_recorded_error_is_read_with_status_body_and_headers() -> None:
    (error,) = {
        event.error.status_code: event.error for event in events("401") if isinstance(event, SessionError)
    }.values()

    assert (error.name, error.status_code, error.is_retryable) == ("APIError", 401, False)
    assert error.response_body is not None
    assert "content-type" in error.response_headers


def test_recorded_retries_count_up_and_name_the_time_of_the_next_request() -> None:
    retries = [
        event for event in events("429") if isinstance(event, SessionStatus) and event.status == "retry"
    ]

    assert [event.attempt for event in retries] == [1, 2, 3, 4, 5]
    assert all(event.next_at is not None and event.next_at > 1.7e9 for event in retries)


def test_a_recorded_failure_has_its_first_idle_before_the_messages_error() -> None:
    order = [
        type(event)
        for event in events("401")
        if isinstance(event, SessionError | SessionIdle)
        or (isinstance(event, MessageUpdated) and getattr(event.message, "error", None))
    ]

    assert order == [SessionError, SessionIdle, MessageUpdated, SessionIdle]


def test_recorded_histories_are_read_whole() -> None:
    histories = [
        line["client"]["response"]
        for file in RECORDINGS
        for line in lines(file)
        if isinstance(line.get("client", {}).get("response"), list)
    ]

    assert histories
    assert all(len(read_history(history)) == len(history) for history in histories)
