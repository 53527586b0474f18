"""Events of OpenCode 1.18.33, one of each type, and those this package does not know."""

from typing import Any, Final

import pytest

from fallback_plugin.errors import WireError
from fallback_plugin.events import (
    AssistantMessage,
    Event,
    HostError,
    MessagePartDelta,
    MessagePartUpdated,
    MessageRemoved,
    MessageUpdated,
    ModelRequested,
    SessionAbortRequested,
    SessionCompacted,
    SessionCreated,
    SessionDeleted,
    SessionError,
    SessionIdle,
    SessionStatus,
    UserMessage,
)
from fallback_plugin.model_ref import ModelRef
from fallback_plugin.wire.event import read_event

SES: Final = "ses_1"
INFO: Final = {"id": SES, "title": "A title", "time": {"created": 1_000, "updated": 1_000}}
PART: Final = {"id": "prt_1", "messageID": "msg_2", "sessionID": SES, "type": "text", "text": "Hello"}
USER: Final = {
    "id": "msg_1",
    "sessionID": SES,
    "role": "user",
    "time": {"created": 1_000},
    "agent": "build",
    "model": {"providerID": "openai", "modelID": "gpt"},
}
ANSWER: Final = {
    "id": "msg_2",
    "sessionID": SES,
    "role": "assistant",
    "parentID": "msg_1",
    "time": {"created": 2_000},
    "agent": "build",
    "mode": "build",
    "providerID": "openai",
    "modelID": "gpt",
}

KNOWN: Final[dict[str, dict[str, Any]]] = {
    "session.created": {"sessionID": SES, "info": INFO},
    "session.deleted": {"sessionID": SES, "info": INFO},
    "session.status": {"sessionID": SES, "status": {"type": "busy"}},
    "session.idle": {"sessionID": SES},
    "session.abort.requested": {"sessionID": SES},
    "model.requested": {"sessionID": SES, "messageID": "msg_1"},
    "session.error": {"sessionID": SES, "error": {"name": "APIError", "data": {"message": "no"}}},
    "session.compacted": {"sessionID": SES},
    "message.updated": {"sessionID": SES, "info": ANSWER},
    "message.removed": {"sessionID": SES, "messageID": "msg_2"},
    "message.part.updated": {"sessionID": SES, "part": PART, "time": 2_000},
    "message.part.delta": {
        "sessionID": SES,
        "messageID": "msg_2",
        "partID": "prt_1",
        "field": "text",
        "delta": "lo",
    },
}

CLASSES: Final[dict[str, type[Event]]] = {
    "session.created": SessionCreated,
    "session.deleted": SessionDeleted,
    "session.status": SessionStatus,
    "session.idle": SessionIdle,
    "session.abort.requested": SessionAbortRequested,
    "model.requested": ModelRequested,
    "session.error": SessionError,
    "session.compacted": SessionCompacted,
    "message.updated": MessageUpdated,
    "message.removed": MessageRemoved,
    "message.part.updated": MessagePartUpdated,
    "message.part.delta": MessagePartDelta,
}


def event(kind: str, **changes: Any) -> dict[str, Any]:
    """Return a raw event of a known type with some properties changed; None takes one out."""
    properties = {key: value for key, value in {**KNOWN[kind], **changes}.items() if value is not None}
    return {"id": "evt_1", "type": kind, "properties": properties}


def status(**fields: Any) -> Event:
    return read_event(event("session.status", status=fields))


@pytest.mark.parametrize("kind", KNOWN)
def test_a_known_type_is_read_into_its_class(kind: str) -> None:
    assert type(read_event(event(kind))) is CLASSES[kind]


@pytest.mark.parametrize("kind", KNOWN)
def test_an_event_keeps_the_hosts_word_its_session_and_its_number(kind: str) -> None:
    found = read_event(event(kind), sequence=7)

    assert (found.type, found.session_id, found.sequence) == (kind, SES, 7)


def test_an_event_without_a_number_has_none() -> None:
    assert read_event(event("session.idle")).sequence is None


@pytest.mark.parametrize("kind", ["session.created", "session.deleted"])
def test_a_sessions_own_record_names_it_as_well(kind: str) -> None:
    assert read_event(event(kind, sessionID=None)).session_id == SES


@pytest.mark.parametrize("kind", ["message.updated", "message.part.updated"])
def test_a_message_or_part_names_the_session_as_well(kind: str) -> None:
    assert read_event(event(kind, sessionID=None)).session_id == SES


@pytest.mark.parametrize("parent", [None, "ses_0"], ids=["of a person", "of a tool"])
def test_a_created_session_names_its_parent(parent: str | None) -> None:
    found = read_event(event("session.created", info={**INFO, "parentID": parent}))

    assert isinstance(found, SessionCreated)
    assert found.parent_id == parent


@pytest.mark.parametrize("word", ["busy", "idle"])
def test_a_status_without_a_retry_has_nothing_else_to_say(word: str) -> None:
    found = status(type=word)

    assert isinstance(found, SessionStatus)
    assert (found.status, found.attempt, found.message, found.next_at) == (word, 0, "", None)


def test_a_retry_status_gives_attempt_text_and_the_time_of_the_next_request_in_seconds() -> None:
    found = status(type="retry", attempt=2, message="Rate limit reached", next=1_795_000_000_500)

    assert isinstance(found, SessionStatus)
    assert (found.attempt, found.message, found.next_at) == (2, "Rate limit reached", 1_795_000_000.5)


def test_a_retry_status_may_come_with_an_action_for_the_user() -> None:
    action = {"reason": "limit", "provider": "zen", "title": "t", "message": "m", "label": "l"}

    assert isinstance(status(type="retry", attempt=1, message="", next=1, action=action), SessionStatus)


def test_a_status_of_an_unknown_kind_is_a_bare_event() -> None:
    found = status(type="paused")

    assert (type(found), found.type, found.session_id) == (Event, "session.status", SES)


def test_an_error_is_read_with_all_it_says() -> None:
    data = {"message": "no", "statusCode": 429, "isRetryable": True}
    found = read_event(event("session.error", error={"name": "APIError", "data": data}))

    assert isinstance(found, SessionError)
    assert found.error == HostError(name="APIError", message="no", status_code=429, is_retryable=True)


@pytest.mark.parametrize("error", [None, "boom", 7, {}])
def test_an_error_event_is_never_lost(error: object) -> None:
    found = read_event(event("session.error", error=error))

    assert isinstance(found, SessionError)
    assert found.error.name == "UnknownError"


def test_an_error_of_no_session_is_a_bare_event() -> None:
    found = read_event(event("session.error", sessionID=None))

    assert (type(found), found.type, found.session_id) == (Event, "session.error", None)


def test_an_updated_message_of_the_users_is_read() -> None:
    found = read_event(event("message.updated", info=USER))

    assert isinstance(found, MessageUpdated)
    assert isinstance(found.message, UserMessage)


def test_an_updated_answer_is_read() -> None:
    found = read_event(event("message.updated"))

    assert isinstance(found, MessageUpdated)
    assert isinstance(found.message, AssistantMessage)
    assert found.message.model == ModelRef("openai", "gpt")


def test_a_removed_message_is_named() -> None:
    found = read_event(event("message.removed"))

    assert isinstance(found, MessageRemoved)
    assert found.message_id == "msg_2"


def test_an_updated_part_is_read() -> None:
    found = read_event(event("message.part.updated"))

    assert isinstance(found, MessagePartUpdated)
    assert (found.part.id, found.part.text) == ("prt_1", "Hello")


def test_a_delta_names_its_message_and_part() -> None:
    found = read_event(event("message.part.delta"))

    assert isinstance(found, MessagePartDelta)
    assert (found.message_id, found.part_id, found.delta) == ("msg_2", "prt_1", "lo")


@pytest.mark.parametrize("kind", ["server.connected", "session.updated", "session.diff", "sync", "next.year"])
def test_an_unknown_type_is_a_bare_event(kind: str) -> None:
    found = read_event({"id": "evt_1", "type": kind, "properties": {"sessionID": SES, "deep": [{}]}})

    assert (type(found), found.type, found.session_id) == (Event, kind, SES)


@pytest.mark.parametrize("properties", [{}, {"properties": None}, {"properties": []}, {"properties": {}}])
def test_an_unknown_type_may_lack_properties_and_session(properties: dict[str, object]) -> None:
    assert read_event({"type": "server.heartbeat", **properties}) == Event(type="server.heartbeat")


def test_fields_this_package_does_not_know_are_ignored() -> None:
    assert read_event(event("session.idle", colour="green")) == read_event(event("session.idle"))


@pytest.mark.parametrize("raw", [{}, {"type": ""}, {"type": 7}, {"type": None}])
def test_an_event_without_a_type_is_refused(raw: dict[str, object]) -> None:
    with pytest.raises(WireError, match="type"):
        read_event(raw)


@pytest.mark.parametrize("kind", [kind for kind in KNOWN if kind != "session.error"])
def test_a_known_type_that_names_no_session_is_refused(kind: str) -> None:
    with pytest.raises(WireError, match=kind):
        read_event({"type": kind, "properties": {}})


@pytest.mark.parametrize(
    ("kind", "missing"),
    [
        ("session.status", "status"),
        ("message.updated", "info"),
        ("message.removed", "messageID"),
        ("message.part.updated", "part"),
        ("message.part.delta", "messageID"),
        ("message.part.delta", "partID"),
    ],
)
def test_a_known_type_that_lacks_a_field_is_refused_by_its_name(kind: str, missing: str) -> None:
    with pytest.raises(WireError, match=missing):
        read_event(event(kind, **{missing: None}))


@pytest.mark.parametrize("value", ["busy", 7, []])
def test_a_field_of_another_type_is_refused(value: object) -> None:
    with pytest.raises(WireError, match="status"):
        read_event(event("session.status", status=value))


def test_a_status_without_a_kind_is_refused() -> None:
    with pytest.raises(WireError, match="type"):
        status(attempt=1)


@pytest.mark.parametrize("kind", ["message.updated", "message.part.updated"])
def test_H4_history_that_was_copied_is_no_event_of_a_message(kind: str) -> None:
    copied = read_event({"type": kind, "properties": {**KNOWN[kind], "copied": True}}, sequence=7)
    assert copied == Event(type=kind, session_id=SES, sequence=7)
    assert type(read_event({"type": kind, "properties": KNOWN[kind]})) is not Event
