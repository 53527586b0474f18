"""Which events are only progress."""

import pytest

from fallback_plugin.events import Event, MessagePartDelta
from fallback_plugin.plugins.streaming import is_streaming, with_delta
from fallback_plugin.wire.event import read_event
from tests.plugins.fake_calls import idle

STARTED = {"start": 1}
ENDED = {"start": 1, "end": 2}


def part(**fields: object) -> Event:
    raw = {"id": "p", "messageID": "m", "sessionID": "s", "type": "text", **fields}
    return read_event({"type": "message.part.updated", "properties": {"sessionID": "s", "part": raw}})


def delta(text: str = "a") -> MessagePartDelta:
    return MessagePartDelta(
        type="message.part.delta", session_id="s", message_id="m", part_id="p", delta=text, sequence=1
    )


@pytest.mark.parametrize(
    "event",
    [
        delta(),
        part(text="growing", time=STARTED),
        part(type="reasoning", text="thinking", time=STARTED),
    ],
    ids=["delta", "text", "reasoning"],
)
def test_progress_of_a_text_is_streaming(event: Event) -> None:
    assert is_streaming(event)


@pytest.mark.parametrize(
    "event",
    [
        idle("s"),
        part(text="", time=STARTED),
        part(text="done", time=ENDED),
        part(text="what a person wrote"),
        part(type="tool", tool="bash", state={"status": "running"}, time=STARTED),
        part(type="step-finish"),
    ],
    ids=["idle", "stub", "final", "prompt", "tool", "step"],
)
def test_what_carries_state_is_not_streaming(event: Event) -> None:
    assert not is_streaming(event)


def test_a_merged_delta_carries_its_text_in_both_forms() -> None:
    raw = {"type": "message.part.delta", "properties": {"partID": "p", "delta": "b"}}

    merged_raw, merged = with_delta(raw, delta("b"), "ab")

    assert merged.delta == "ab"
    assert merged_raw["properties"] == {"partID": "p", "delta": "ab"}
    assert raw["properties"] == {"partID": "p", "delta": "b"}


def test_a_raw_form_of_another_shape_is_left_alone() -> None:
    raw = {"chunk": "b"}

    merged_raw, _ = with_delta(raw, delta("b"), "ab")

    assert merged_raw == raw
