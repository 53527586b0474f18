"""Normalised events are values: equal by content, and never changed by whoever sees them."""

from dataclasses import FrozenInstanceError, fields, is_dataclass
from typing import Any

import pytest

from fallback_plugin import events
from fallback_plugin.events import Event, HostError, SessionEvent, SessionIdle

EVENT_CLASSES = [
    value for value in vars(events).values() if isinstance(value, type) and issubclass(value, Event)
]


@pytest.mark.parametrize(
    ("name", "is_abort"), [("MessageAbortedError", True), ("APIError", False), ("", False)]
)
def test_only_the_hosts_word_for_an_abort_is_one(*, name: str, is_abort: bool) -> None:
    assert HostError(name=name).is_abort is is_abort


def test_events_of_the_same_content_are_equal() -> None:
    assert SessionIdle(type="session.idle", session_id="s") == SessionIdle(
        type="session.idle", session_id="s"
    )


def test_events_of_different_classes_are_not_equal() -> None:
    assert SessionIdle(type="t", session_id="s") != Event(type="t", session_id="s")


def test_an_event_does_not_change() -> None:
    event: Any = SessionIdle(type="session.idle", session_id="s")

    with pytest.raises(FrozenInstanceError):
        event.session_id = "other"


@pytest.mark.parametrize("event_class", EVENT_CLASSES)
def test_every_event_tells_its_type_session_and_number(event_class: type[Event]) -> None:
    assert is_dataclass(event_class)
    assert {"type", "session_id", "sequence"} <= {field.name for field in fields(event_class)}


@pytest.mark.parametrize("event_class", [cls for cls in EVENT_CLASSES if cls is not Event])
def test_every_event_with_a_class_of_its_own_is_about_a_session(event_class: type[Event]) -> None:
    assert issubclass(event_class, SessionEvent)
