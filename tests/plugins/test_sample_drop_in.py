"""The sample plugin file, loaded from where it ships and driven by a host."""

from pathlib import Path
from typing import Any, Literal

import pytest

from fallback_plugin.events import SessionDeleted, SessionStatus
from fallback_plugin.plugins import PluginHost, Subscriptions
from tests.plugins.fake_calls import Clock, FakeCalls, idle, publish, running

pytestmark = pytest.mark.anyio

FOLDER = Path(__file__).parents[2] / "hooks" / "drop-in"


@pytest.fixture
def calls() -> FakeCalls:
    return FakeCalls(parents={"child": "s"})


@pytest.fixture
def host(calls: FakeCalls) -> PluginHost:
    host = PluginHost(calls)
    assert host.load(dirs=[FOLDER], builtins=False, entry_points=False) == ()
    return host


@pytest.fixture
def plugin(host: PluginHost) -> Any:
    return host._registry._manager.get_plugin("notify_long_turns")


@pytest.fixture
def clock(plugin: Any) -> Clock:
    plugin._clock = clock = Clock()
    return clock


async def turn(host: PluginHost, clock: Clock, seconds: float, session_id: str = "s") -> None:
    publish(host, status("busy", session_id))
    await host._runners["notify_long_turns"].drained()
    clock.now += seconds
    publish(host, status("busy", session_id), idle(session_id), idle(session_id))
    await host._runners["notify_long_turns"].drained()


def status(word: Literal["busy", "retry"], session_id: str = "s") -> SessionStatus:
    return SessionStatus(type="session.status", session_id=session_id, status=word)


def test_the_sample_wants_three_types_of_event(host: PluginHost) -> None:
    assert host.subscriptions == Subscriptions(
        frozenset({"session.status", "session.idle", "session.deleted"})
    )


async def test_a_long_turn_is_told_once(host: PluginHost, calls: FakeCalls, clock: Clock) -> None:
    async with running(host):
        await turn(host, clock, 95)

    assert [toast.message for toast in calls.toasts] == ["It took 1 min 35 s."]


async def test_a_short_turn_is_not_told(host: PluginHost, calls: FakeCalls, clock: Clock) -> None:
    async with running(host):
        await turn(host, clock, 59)

    assert calls.toasts == []


async def test_a_turn_of_a_child_session_is_not_told(
    host: PluginHost, calls: FakeCalls, clock: Clock
) -> None:
    async with running(host):
        await turn(host, clock, 95, "child")

    assert calls.toasts == []


async def test_each_turn_has_its_own_time(host: PluginHost, calls: FakeCalls, clock: Clock) -> None:
    async with running(host):
        await turn(host, clock, 50)
        await turn(host, clock, 50)

    assert calls.toasts == []


async def test_a_deleted_session_is_forgotten(host: PluginHost, plugin: Any) -> None:
    async with running(host):
        publish(host, status("busy"), SessionDeleted(type="session.deleted", session_id="s"))

    assert plugin._began_at == {}
