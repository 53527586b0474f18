"""A plugin that falls too far behind is suspended, and that is said."""

import anyio
import pytest

from fallback_plugin import HostClient, ModelRef, hookimpl
from fallback_plugin.events import SessionIdle
from fallback_plugin.hookspecs import PromptRequest
from fallback_plugin.plugins import Limits, PluginHost, Subscriptions
from tests.plugins import fake_calls
from tests.plugins.fake_calls import Clock, FakeCalls, idle, publish, running

pytestmark = pytest.mark.anyio

LIMITS = Limits(backlog=3, backlog_s=1, drain_s=0)


class Stuck:
    def __init__(self) -> None:
        self.entered = anyio.Event()
        self.log: list[str] = []
        self.client: HostClient | None = None

    async def work(self) -> None:
        try:
            await anyio.sleep_forever()
        finally:
            self.log.append("work ended")

    @hookimpl
    async def session_idle(self, event: SessionIdle, host: HostClient) -> None:
        if event.session_id == "other":
            return
        self.client = host
        host.start_soon(self.work)
        self.entered.set()
        try:
            await anyio.sleep_forever()
        finally:
            self.log.append("hook ended")

    @hookimpl
    def chat_message(self) -> ModelRef:
        return ModelRef("p", "m")

    @hookimpl
    def host_stopping(self) -> None:
        self.log.append("stopping")


class Quick:
    def __init__(self) -> None:
        self.seen = 0

    @hookimpl
    def session_idle(self) -> None:
        self.seen += 1


def host_of(clock: Clock, calls: FakeCalls, **plugins: object) -> PluginHost:
    return fake_calls.host_of(calls=calls, limits=LIMITS, clock=clock, **plugins)


async def fall_behind(host: PluginHost, clock: Clock, plugin: Stuck) -> None:
    publish(host, idle("s"))
    await plugin.entered.wait()
    publish(host, *(idle("s") for _ in range(4)))
    clock.now += 1
    publish(host, idle("s"))


async def test_suspension_is_said_once_in_the_log_and_to_the_person(
    caplog: pytest.LogCaptureFixture,
) -> None:
    clock, calls, plugin = Clock(), FakeCalls(), Stuck()
    async with running(host_of(clock, calls, stuck=plugin)) as host:
        await fall_behind(host, clock, plugin)
        await calls.toasted.wait()
        publish(host, *(idle("s") for _ in range(100)))

    assert [record.levelname for record in caplog.records] == ["ERROR"]
    assert "plugin 'stuck' (explicit) fell more than 3 events behind" in caplog.text
    (toast,) = calls.toasts
    assert (toast.variant, "stuck" in toast.message) == ("error", True)


async def test_everything_a_suspended_plugin_does_ends_and_it_may_still_clean_up() -> None:
    clock, calls, plugin = Clock(), FakeCalls(), Stuck()
    async with running(host_of(clock, calls, stuck=plugin)) as host:
        await fall_behind(host, clock, plugin)
        await calls.toasted.wait()

    assert sorted(plugin.log[:2]) == ["hook ended", "work ended"]
    assert plugin.log[2:] == ["stopping"]


async def test_a_suspended_plugin_is_neither_told_nor_asked_nor_waited_for() -> None:
    clock, calls, plugin = Clock(), FakeCalls(), Stuck()
    async with running(host_of(clock, calls, stuck=plugin)) as host:
        await fall_behind(host, clock, plugin)
        publish(host, idle("other"))
        request = PromptRequest(session_id="s")

        assert await host.ask("chat_message", session_id="s", request=request) is None
        assert host.subscriptions == Subscriptions()
        assert not host._runners["stuck"]._queues
        assert plugin.client is not None
        with pytest.raises(RuntimeError, match="was suspended"):
            plugin.client.start_soon(plugin.work)


async def test_other_plugins_miss_nothing() -> None:
    clock, calls, plugin, quick = Clock(), FakeCalls(), Stuck(), Quick()
    async with running(host_of(clock, calls, stuck=plugin, quick=quick)) as host:
        await fall_behind(host, clock, plugin)
        publish(host, idle("s"))
        await host._runners["quick"].drained()

    assert quick.seen == 7


async def test_a_burst_that_left_no_turn_to_work_suspends_nobody() -> None:
    clock, calls, quick = Clock(), FakeCalls(), Quick()
    async with running(host_of(clock, calls, quick=quick)) as host:
        publish(host, *(idle("s") for _ in range(100)))
        await host._runners["quick"].drained()
        clock.now += 60
        publish(host, *(idle("s") for _ in range(100)))
        await host._runners["quick"].drained()

    assert (quick.seen, calls.toasts) == (200, [])


async def test_what_waits_for_the_start_suspends_nobody() -> None:
    clock, calls, quick = Clock(), FakeCalls(), Quick()
    host = host_of(clock, calls, quick=quick)
    publish(host, *(idle("s") for _ in range(50)))
    clock.now += 60
    publish(host, *(idle("s") for _ in range(50)))
    async with running(host):
        await host._runners["quick"].drained()

    assert quick.seen == 100


async def test_a_toast_the_host_refuses_harms_nobody(caplog: pytest.LogCaptureFixture) -> None:
    clock, calls, plugin = Clock(), FakeCalls(is_gone=True), Stuck()
    async with running(host_of(clock, calls, stuck=plugin)) as host:
        await fall_behind(host, clock, plugin)
        await anyio.wait_all_tasks_blocked()

    assert "the host did not show a toast" in caplog.text
