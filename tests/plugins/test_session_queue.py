"""One session's queue: order, merging, bounds."""

from typing import Any

import anyio
import pytest

from fallback_plugin.events import Event, MessagePartDelta, MessagePartUpdated, Part
from fallback_plugin.plugins.session_queue import Delivery, SessionQueue, event_delivery
from tests.plugins.fake_calls import idle

pytestmark = pytest.mark.anyio


def queue(*, max_streams: int = 10, max_text: int = 100) -> SessionQueue:
    return SessionQueue(max_streams=max_streams, max_text=max_text)


def delta(text: str, part_id: str = "p", sequence: int | None = None) -> MessagePartDelta:
    return MessagePartDelta(
        type="message.part.delta",
        session_id="s",
        message_id="m",
        part_id=part_id,
        delta=text,
        sequence=sequence,
    )


def growing(text: str, part_id: str = "p") -> MessagePartUpdated:
    raw = {"time": {"start": 1}}
    part = Part(id=part_id, message_id="m", session_id="s", type="text", text=text, raw=raw)
    return MessagePartUpdated(type="message.part.updated", session_id="s", part=part)


def delivery(event: Event, field: str = "text") -> Delivery:
    raw: dict[str, Any] = {"type": event.type}
    if isinstance(event, MessagePartDelta):
        raw["properties"] = {"field": field, "delta": event.delta}
    return event_delivery((), raw, event, None)


def put(target: SessionQueue, *events: Event) -> list[bool]:
    return [target.put(delivery(event)) for event in events]


def taken(source: SessionQueue) -> list[Any]:
    found: list[Any] = []
    while (taken := source.take()) is not None:
        event = taken.arguments["event"]
        match event:
            case MessagePartDelta():
                found.append(event.delta)
            case MessagePartUpdated():
                found.append(event.part.text)
            case _:
                found.append(event.sequence)
    return found


async def test_state_bearing_events_come_out_as_they_went_in() -> None:
    target = queue()

    put(target, idle("s", 1), idle("s", 2), idle("s", 3))

    assert target.backlog == 3
    assert taken(target) == [1, 2, 3]


async def test_waiting_deltas_of_one_part_become_one() -> None:
    target = queue()

    put(target, delta("a"), delta("b"), delta("c", sequence=7))

    merged = target.take()
    assert merged is not None
    assert merged.arguments["event"] == delta("abc", sequence=7)
    assert merged.arguments["raw"]["properties"] == {"field": "text", "delta": "abc"}


async def test_a_delta_that_is_being_delivered_is_not_changed_any_more() -> None:
    target = queue()
    put(target, delta("a"))
    target.take()

    put(target, delta("b"))

    assert taken(target) == ["b"]


async def test_deltas_never_pass_another_event() -> None:
    target = queue()

    put(target, delta("a"), idle("s", 1), delta("b"), delta("x", "other"), delta("c"))

    assert taken(target) == ["a", 1, "b", "x", "c"]


async def test_deltas_of_different_fields_stay_two() -> None:
    target = queue()

    target.put(delivery(delta("a"), "text"))
    target.put(delivery(delta("b"), "title"))

    assert taken(target) == ["a", "b"]


async def test_a_growing_text_replaces_its_older_state() -> None:
    target = queue(max_text=5)

    kept = put(target, growing("a"), growing("ab"), growing("abcde"))

    assert kept == [True, True, True]
    assert taken(target) == ["abcde"]


async def test_a_delta_and_a_state_of_one_part_stay_two() -> None:
    target = queue()

    put(target, growing("a"), delta("b"))

    assert taken(target) == ["a", "b"]


async def test_streamed_text_beyond_the_bound_is_dropped() -> None:
    target = queue(max_text=3)

    kept = put(target, delta("ab"), delta("cd"), delta("e"))

    assert kept == [True, False, True]
    assert taken(target) == ["abe"]


async def test_streams_beyond_the_bound_are_dropped() -> None:
    target = queue(max_streams=2)

    kept = put(target, delta("a", "1"), delta("b", "2"), delta("c", "1"), idle("s", 1))

    assert kept == [True, True, False, True]
    assert taken(target) == ["a", "b", 1]


async def test_delivered_text_makes_room_again() -> None:
    target = queue(max_text=2, max_streams=1)
    put(target, delta("ab"))
    target.take()

    assert put(target, delta("cd")) == [True]


async def test_streams_are_no_backlog() -> None:
    target = queue()

    put(target, delta("a"), idle("s"), delta("b"))

    assert target.backlog == 1


async def test_a_delivery_is_over_when_the_next_one_is_taken() -> None:
    target = queue()
    first = delivery(idle("s"))
    target.put(first)

    target.take()
    running = first.over.is_set()
    target.take()

    assert (running, first.over.is_set(), first.complete) == (False, True, True)


async def test_the_youngest_is_the_last_that_waits_or_else_the_one_that_runs() -> None:
    target = queue()
    first, second = delivery(idle("s")), delivery(idle("s"))
    target.put(first)
    target.put(second)

    seen = []
    for _ in range(3):
        seen.append(target.youngest)
        target.take()

    assert seen == [second, second, second]
    assert target.youngest is None


async def test_giving_up_ends_what_runs_and_what_waits() -> None:
    target = queue()
    deliveries = [delivery(idle("s")), delivery(delta("a"))]
    for one in deliveries:
        target.put(one)
    target.take()

    target.give_up()

    with anyio.fail_after(1):
        for one in deliveries:
            await one.over.wait()
    assert [one.complete for one in deliveries] == [False, False]
    assert target.take() is None
