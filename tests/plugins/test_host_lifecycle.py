"""A host's life: start, work beside the hooks, settings, stop."""

import anyio
import pytest

from fallback_plugin import HostClient, ModelRef, Prompt, Toast, hookimpl
from fallback_plugin.events import SessionIdle
from fallback_plugin.plugins import Limits, PluginHost
from fallback_plugin.settings import Settings
from fallback_plugin.wire.model_catalog import EVERYTHING
from tests.plugins.fake_calls import FakeCalls, host_of, idle, publish, running

pytestmark = pytest.mark.anyio


class Life:
    def __init__(self) -> None:
        self.log: list[str] = []

    @hookimpl
    async def host_started(self) -> None:
        await anyio.lowlevel.checkpoint()
        self.log.append("started")

    @hookimpl
    def session_idle(self) -> None:
        self.log.append("idle")

    @hookimpl
    async def host_stopping(self) -> None:
        await anyio.lowlevel.checkpoint()
        self.log.append("stopping")


async def test_events_come_between_start_and_stop_also_those_published_before() -> None:
    plugin = Life()
    host = host_of(plugin)
    publish(host, idle("s"))

    async with running(host):
        publish(host, idle("s"))
    publish(host, idle("s"))

    assert plugin.log == ["started", "idle", "idle", "stopping"]


async def test_a_plugin_that_hangs_at_start_is_cut_and_the_host_serves() -> None:
    class Hanging:
        @hookimpl
        async def host_started(self) -> None:
            await anyio.sleep_forever()

        @hookimpl
        def session_idle(self, event: SessionIdle) -> None:
            seen.append(event.session_id)

    seen: list[str] = []
    async with running(host_of(Hanging(), limits=Limits(notify_s=0))) as host:
        publish(host, idle("s"))

    assert seen == ["s"]


async def test_a_cancelled_host_still_says_that_it_stops() -> None:
    plugin = Life()
    async with anyio.create_task_group() as tasks:
        await tasks.start(host_of(plugin).run)
        tasks.cancel_scope.cancel()

    assert plugin.log == ["started", "stopping"]


async def test_stopping_ends_open_work_of_every_kind() -> None:
    ended: list[str] = []

    class Busy:
        def __init__(self) -> None:
            self.entered = anyio.Event()

        async def hang(self, name: str) -> None:
            try:
                await anyio.sleep_forever()
            finally:
                ended.append(name)

        @hookimpl
        def host_started(self, host: HostClient) -> None:
            host.start_soon(self.hang, "work")

        @hookimpl
        async def session_idle(self) -> None:
            self.entered.set()
            await self.hang("hook")

        @hookimpl
        def host_stopping(self) -> None:
            ended.append("stopping")

    plugin = Busy()
    host = host_of(plugin, limits=Limits(drain_s=0))
    async with running(host):
        publish(host, idle("s"), idle("s"))
        await plugin.entered.wait()
        with anyio.fail_after(5):
            await host.stop()

    assert ended == ["hook", "stopping", "work"]


async def test_a_host_runs_once() -> None:
    async with running(host_of()) as host:
        with pytest.raises(RuntimeError, match="only once"):
            await host.run()


async def test_a_host_that_never_ran_stops_at_once() -> None:
    with anyio.fail_after(5):
        await host_of().stop()


async def test_all_calls_reach_the_host() -> None:
    calls = FakeCalls(kind="tui", directory="/here")
    model = ModelRef("p", "m")

    class Caller:
        @hookimpl
        async def host_started(self, host: HostClient) -> None:
            assert (host.kind, host.directory) == ("tui", "/here")
            assert (await host.abort("s")).answered_after == 2
            assert (await host.session("s")).id == "s"
            assert await host.messages("s") == []
            assert await host.models() == EVERYTHING
            await host.prompt("s", Prompt(model=model, agent="build"))
            await host.toast(Toast(title="t", message="m"))

    async with running(host_of(Caller(), calls=calls)):
        pass

    assert calls.calls == [
        ("abort", "s"),
        ("session", "s"),
        ("messages", "s"),
        ("models", ""),
        ("prompt", "s p/m"),
    ]
    assert calls.toasts == [Toast(title="t", message="m")]


class Worker:
    """Start work from a hook; the work waits until it may go on."""

    def __init__(self, error: Exception | None = None) -> None:
        self.error = error
        self.entered = anyio.Event()
        self.opened = anyio.Event()
        self.log: list[str] = []

    @hookimpl
    def session_idle(self, event: SessionIdle, host: HostClient) -> None:
        host.start_soon(self.work, event.session_id)
        self.log.append("hook")

    async def work(self, session_id: str) -> None:
        self.entered.set()
        await self.opened.wait()
        self.log.append(f"work {session_id}")
        if self.error:
            raise self.error


async def test_work_goes_on_beside_the_hooks() -> None:
    plugin = Worker()
    async with running(host_of(plugin)) as host:
        publish(host, idle("a"))
        await plugin.entered.wait()
        publish(host, idle("b"))
        await host._runners["p0"].drained()
        plugin.opened.set()

    assert plugin.log == ["hook", "hook", "work a", "work b"]


async def test_failed_work_is_logged_with_the_plugins_name(caplog: pytest.LogCaptureFixture) -> None:
    plugin = Worker(ValueError("no"))
    plugin.opened.set()
    async with running(host_of(worker=plugin)) as host:
        publish(host, idle("a"))
        await plugin.entered.wait()

    assert "plugin 'worker' (explicit) failed in work started with start_soon" in caplog.records[0].message


async def test_work_cannot_start_once_the_host_has_ended() -> None:
    clients: list[HostClient] = []

    class Keeper:
        @hookimpl
        def host_started(self, host: HostClient) -> None:
            clients.append(host)

    async with running(host_of(Keeper())):
        pass

    with pytest.raises(RuntimeError, match="'p0' cannot start work: it has no running host"):
        clients[0].start_soon(anyio.lowlevel.checkpoint)


class SettingsKeeper:
    def __init__(self) -> None:
        self.seen: list[object] = []

    @hookimpl
    async def settings_changed(self, settings: object) -> None:
        await anyio.lowlevel.checkpoint()
        self.seen.append(settings)


async def test_settings_have_been_taken_when_the_call_returns() -> None:
    plugin = SettingsKeeper()
    settings = Settings()
    async with running(host_of(plugin)) as host:
        await host.settings_changed(settings)

        assert plugin.seen == [settings]


async def test_settings_that_change_twice_arrive_in_order() -> None:
    plugin = SettingsKeeper()
    first, second = Settings(), Settings()
    async with running(host_of(plugin)) as host, anyio.create_task_group() as tasks:
        tasks.start_soon(host.settings_changed, first)
        tasks.start_soon(host.settings_changed, second)

    assert plugin.seen[0] is first
    assert plugin.seen[1] is second


async def test_a_failed_notification_is_told_by_the_plugins_name() -> None:
    class Raising:
        @hookimpl
        def turn_completed(self) -> None:
            raise ValueError("no")

    class Healthy:
        @hookimpl
        def turn_completed(self) -> None: ...

    async with running(host_of(good=Healthy(), bad=Raising())) as host:
        failed = await host.notify("turn_completed", session_id="s", turn=1)

    assert failed == ("bad",)


async def test_a_stopped_host_notifies_nobody_and_says_so() -> None:
    plugin = SettingsKeeper()
    host = host_of(plugin)
    async with running(host):
        pass

    failed = await host.notify("settings_changed", session_id=None, settings=1)

    assert (failed, plugin.seen) == (("p0",), [])


async def test_a_notification_that_waits_is_released_by_the_stop() -> None:
    class Hanging:
        def __init__(self) -> None:
            self.entered = anyio.Event()

        @hookimpl
        async def turn_completed(self) -> None:
            self.entered.set()
            await anyio.sleep_forever()

    plugin = Hanging()
    failed: list[tuple[str, ...]] = []
    host = host_of(plugin, limits=Limits(drain_s=0))

    async def notify(turn: int) -> None:
        failed.append(await host.notify("turn_completed", session_id="s", turn=turn))

    async with anyio.create_task_group() as tasks:
        await tasks.start(host.run)
        tasks.start_soon(notify, 1)
        tasks.start_soon(notify, 2)
        await plugin.entered.wait()
        await host.stop()

    assert failed == [("p0",), ("p0",)]


@pytest.mark.parametrize("hook", ["chat_message", "no_such_hook"])
async def test_only_notifications_can_be_notified(hook: str) -> None:
    async with running(host_of()) as host:
        with pytest.raises(ValueError, match=hook):
            await host.notify(hook, session_id=None)


async def test_a_notification_before_the_run_is_a_mistake() -> None:
    host: PluginHost = host_of()

    with pytest.raises(RuntimeError, match="before the plugin host runs"):
        await host.settings_changed(Settings())
