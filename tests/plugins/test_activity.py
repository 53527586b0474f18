"""Signs of a growing answer: few, in order, and never the whole stream."""

from typing import Any

import pytest

from fallback_plugin import hookimpl
from fallback_plugin.events import MessagePartDelta, SessionDeleted
from tests.plugins.fake_calls import Clock, host_of, idle, publish, running

pytestmark = pytest.mark.anyio


class Listener:
    """Keeps the deltas it is told."""

    def __init__(self) -> None:
        self.got: list[str] = []

    @hookimpl
    def message_activity(self, event: MessagePartDelta) -> None:
        self.got.append(event.delta)


class Both(Listener):
    """Wants every event as well."""

    def __init__(self) -> None:
        super().__init__()
        self.text = ""

    @hookimpl
    def event(self, event: Any) -> None:
        self.text += getattr(event, "delta", "")


def delta(text: str, session: str = "s", part: str | None = None) -> MessagePartDelta:
    """Return a delta of a part of its own, which nothing that waits is merged with."""
    return MessagePartDelta(
        type="message.part.delta", session_id=session, message_id="m", part_id=part or text, delta=text
    )


async def test_of_many_deltas_one_in_a_while_is_told() -> None:
    listener, clock = Listener(), Clock()

    async with running(host_of(listener, clock=clock)) as host:
        publish(host, delta("a"), delta("b"))
        clock.now += 5.0
        publish(host, delta("c"), delta("d"))

    assert listener.got == ["a", "c"]


async def test_each_session_is_told_of_by_itself() -> None:
    listener = Listener()

    async with running(host_of(listener, clock=Clock())) as host:
        publish(host, delta("a"), delta("b", "other"))

    assert sorted(listener.got) == ["a", "b"]


async def test_what_the_host_sampled_is_told_though_it_seems_a_little_early() -> None:
    listener, clock = Listener(), Clock()

    async with running(host_of(listener, clock=clock)) as host:
        publish(host, delta("a"))
        clock.now += 4.8
        publish(host, delta("b"))

    assert listener.got == ["a", "b"]


async def test_a_new_run_is_told_at_once() -> None:
    listener = Listener()

    async with running(host_of(listener, clock=Clock())) as host:
        publish(host, delta("a"), idle("s"), delta("b"))

    assert listener.got == ["a", "b"]


async def test_a_deleted_session_is_not_told_any_more() -> None:
    listener = Listener()

    async with running(host_of(listener, clock=Clock())) as host:
        publish(host, SessionDeleted(type="session.deleted", session_id="s"), delta("a"))

    assert listener.got == []


async def test_a_plugin_that_wants_everything_besides_gets_both() -> None:
    both, clock = Both(), Clock()

    async with running(host_of(both, clock=clock)) as host:
        publish(host, *(delta(text, part="p") for text in "abc"))
        clock.now += 5.0
        publish(host, *(delta(text, part="p") for text in "de"))

    assert (both.text, both.got) == ("abcde", ["a", "d"])
