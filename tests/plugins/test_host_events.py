"""Events on their way to plugins: order, isolation, deadlines, nothing left behind."""

import logging
from collections.abc import Mapping
from typing import Any

import anyio
import pytest

from fallback_plugin import HostClient, hookimpl
from fallback_plugin.events import (
    Event,
    MessagePartDelta,
    MessagePartUpdated,
    MessageUpdated,
    Part,
    SessionCreated,
    SessionDeleted,
    SessionIdle,
    UserMessage,
)
from fallback_plugin.model_ref import ModelRef
from fallback_plugin.plugins import Limits, PluginHost
from tests.plugins.fake_calls import host_of, idle, publish, running

pytestmark = pytest.mark.anyio


class Recorder:
    """Remember idle events as (session, sequence)."""

    def __init__(self) -> None:
        self.seen: list[tuple[str | None, int | None]] = []
        self.news = anyio.Event()

    @hookimpl
    async def session_idle(self, event: SessionIdle) -> None:
        self.seen.append((event.session_id, event.sequence))
        self.news.set()


class Gate:
    """Hold the events of session ``held`` until opened; remember when events begin and end."""

    def __init__(self) -> None:
        self.opened = anyio.Event()
        self.entered = anyio.Event()
        self.log: list[tuple[str, str | None, int | None]] = []

    @hookimpl
    async def session_idle(self, event: SessionIdle) -> None:
        self.log.append(("begin", event.session_id, event.sequence))
        if event.session_id == "held":
            self.entered.set()
            await self.opened.wait()
        self.log.append(("end", event.session_id, event.sequence))


def queues(host: PluginHost) -> int:
    return sum(len(runner._queues) for runner in host._runners.values())


async def test_events_of_a_session_arrive_in_order_and_one_at_a_time() -> None:
    gate = Gate()
    async with running(host_of(gate)) as host:
        publish(host, idle("held", 1), idle("held", 2))
        await gate.entered.wait()
        begun = list(gate.log)
        gate.opened.set()

    assert begun == [("begin", "held", 1)]
    assert gate.log == [
        ("begin", "held", 1),
        ("end", "held", 1),
        ("begin", "held", 2),
        ("end", "held", 2),
    ]


async def test_a_blocked_session_does_not_hold_up_another_one() -> None:
    gate = Gate()
    recorder = Recorder()
    async with running(host_of(gate)) as host:
        publish(host, idle("held", 1))
        await gate.entered.wait()
        publish(host, idle("free", 1))
        await host._runners["p0"].caught_up("free")
        recorder.seen = [(session, number) for what, session, number in gate.log if what == "end"]
        gate.opened.set()

    assert recorder.seen == [("free", 1)]


async def test_a_blocked_plugin_does_not_hold_up_another_one() -> None:
    gate, recorder = Gate(), Recorder()
    async with running(host_of(gate, recorder)) as host:
        publish(host, idle("held", 1))
        with anyio.fail_after(5):
            await recorder.news.wait()
        gate.opened.set()

    assert recorder.seen == [("held", 1)]


async def test_events_without_a_session_have_an_order_of_their_own() -> None:
    class All:
        def __init__(self) -> None:
            self.types: list[str] = []

        @hookimpl
        async def event(self, event: Event) -> None:
            self.types.append(event.type)

    plugin = All()
    async with running(host_of(plugin)) as host:
        publish(host, Event(type="a"), Event(type="b"), Event(type="c"))

    assert plugin.types == ["a", "b", "c"]


async def test_an_implementation_is_cut_at_its_deadline_and_the_next_event_comes() -> None:
    class Hanging:
        def __init__(self) -> None:
            self.log: list[str] = []

        @hookimpl
        async def session_idle(self, event: SessionIdle) -> None:
            self.log.append(f"begin {event.sequence}")
            try:
                await anyio.sleep_forever()
            finally:
                self.log.append(f"cut {event.sequence}")

    plugin = Hanging()
    async with running(host_of(plugin, limits=Limits(notify_s=0))) as host:
        publish(host, idle("s", 1), idle("s", 2))

    assert plugin.log == ["begin 1", "cut 1", "begin 2", "cut 2"]


async def test_a_raising_plugin_goes_on_and_harms_no_other(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, logger="fallback_plugin")

    class Raising(Recorder):
        @hookimpl
        async def session_idle(self, event: SessionIdle) -> None:
            self.seen.append((event.session_id, event.sequence))
            raise ValueError("no")

    broken, healthy = Raising(), Recorder()
    async with running(host_of(healthy, broken=broken)) as host:
        publish(host, idle("s", 1), idle("s", 2))

    assert healthy.seen == broken.seen == [("s", 1), ("s", 2)]
    assert [record.levelname for record in caplog.records] == ["ERROR", "DEBUG"]
    assert "'broken'" in caplog.records[0].message


async def test_plain_and_async_implementations_get_the_arguments_they_name() -> None:
    got: list[object] = []

    class Plain:
        @hookimpl
        def event(self, host: HostClient, raw: Mapping[str, Any]) -> None:
            got.extend([host.directory, raw["type"]])

    class Async:
        @hookimpl
        async def event(self) -> None:
            got.append("nothing")

    async with running(host_of(Plain())) as host:
        publish(host, Event(type="a"))
    async with running(host_of(Async())) as host:
        publish(host, Event(type="a"))

    assert got == ["/project", "a", "nothing"]


async def test_the_broad_hook_is_called_before_the_narrow_one() -> None:
    log: list[str] = []

    class Both:
        @hookimpl
        async def event(self) -> None:
            await anyio.lowlevel.checkpoint()
            log.append("event")

        @hookimpl
        def session_idle(self) -> None:
            log.append("session_idle")

    async with running(host_of(Both())) as host:
        publish(host, idle("s"))

    assert log == ["event", "session_idle"]


async def test_an_event_nobody_wants_leaves_no_trace() -> None:
    async with running(host_of(Recorder())) as host:
        publish(
            host, Event(type="other", session_id="s"), SessionCreated(type="session.created", session_id="s")
        )

        assert queues(host) == 0


async def test_queues_vanish_when_they_are_empty() -> None:
    recorder = Recorder()
    async with running(host_of(recorder)) as host:
        publish(host, *(idle(f"s{number}") for number in range(500)))
        during = queues(host)
        for runner in host._runners.values():
            await runner.drained()

        assert (during, queues(host)) == (500, 0)
        assert not host._runners["p0"]._scopes


async def test_deltas_that_wait_are_merged() -> None:
    class Slow:
        def __init__(self) -> None:
            self.opened = anyio.Event()
            self.entered = anyio.Event()
            self.seen: list[str] = []

        @hookimpl
        async def event(self, event: Event) -> None:
            self.entered.set()
            await self.opened.wait()
            self.seen.append(event.delta if isinstance(event, MessagePartDelta) else event.type)

    def delta(text: str) -> MessagePartDelta:
        return MessagePartDelta(
            type="message.part.delta", session_id="s", message_id="m", part_id="p", delta=text
        )

    plugin = Slow()
    async with running(host_of(plugin)) as host:
        publish(host, delta("a"))
        await plugin.entered.wait()
        publish(host, delta("b"), delta("c"), idle("s"), delta("d"))
        plugin.opened.set()

    assert plugin.seen == ["a", "bc", "session.idle", "d"]


async def test_a_deleted_session_reaches_no_narrow_hook_any_more() -> None:
    log: list[str] = []

    class Plugin:
        @hookimpl
        def event(self, event: Event) -> None:
            log.append(event.type)

        @hookimpl
        def session_deleted(self) -> None:
            log.append("hook deleted")

        @hookimpl
        def session_idle(self) -> None:
            log.append("hook idle")

    deleted = SessionDeleted(type="session.deleted", session_id="s")
    created = SessionCreated(type="session.created", session_id="s")
    async with running(host_of(Plugin())) as host:
        publish(host, deleted, idle("s"), created, idle("s"))

    assert log == [
        "session.deleted",
        "hook deleted",
        "session.idle",
        "session.created",
        "session.idle",
        "hook idle",
    ]


async def test_H4_what_a_fork_copies_reaches_no_narrow_hook() -> None:
    log: list[str] = []

    class Plugin:
        @hookimpl
        def event(self, event: Event) -> None:
            log.append(event.type)

        @hookimpl
        def message_updated(self, event: MessageUpdated) -> None:
            log.append(f"hook {event.message.id}")

        @hookimpl
        def message_part_updated(self, event: MessagePartUpdated) -> None:
            log.append(f"hook {event.part.id}")

    def told(message_id: str, created_at: float) -> tuple[Event, Event]:
        message = UserMessage(id=message_id, session_id="s", model=ModelRef("p", "m"), created_at=created_at)
        part = Part(id=f"part of {message_id}", message_id=message_id, session_id="s", type="text")
        return (
            MessageUpdated(type="message.updated", session_id="s", message=message),
            MessagePartUpdated(type="message.part.updated", session_id="s", part=part),
        )

    created = SessionCreated(type="session.created", session_id="s", created_at=10)
    async with running(host_of(Plugin())) as host:
        publish(host, created, *told("copied", 9), *told("own", 11))

    assert log == [
        "session.created",
        "message.updated",
        "message.part.updated",
        "message.updated",
        "hook own",
        "message.part.updated",
        "hook part of own",
    ]


async def test_remembered_deletions_are_bounded() -> None:
    class Plugin:
        @hookimpl
        def session_deleted(self) -> None: ...

    async with running(host_of(Plugin())) as host:
        publish(host, *(SessionDeleted(type="session.deleted", session_id=str(n)) for n in range(1_000)))

        assert len(host._router._deleted) == 256
