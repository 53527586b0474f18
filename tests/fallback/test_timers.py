"""Silences, and a host that is not heard for a while."""

from collections.abc import Awaitable, Callable

import anyio
import pytest

from fallback_plugin.fallback.plugin import FallbackPlugin
from fallback_plugin.health import MemoryHealth
from tests.agent.virtual_time import run_in_virtual_time
from tests.fallback.stage import A, settings
from tests.fallback.test_plugin import Host, a_host, begin_turn, event

GAP_S = 3600.0


def speak(plugin: FallbackPlugin, host: Host) -> None:
    part = {"id": "prt_1", "messageID": "msg_2", "sessionID": "ses_1", "type": "text", "text": "Hello"}
    plugin.message_part_updated(event("message.part.updated", part=part), host)


def play(scene: Callable[[FallbackPlugin, Host], Awaitable[None]]) -> None:
    """Play a scene in virtual time, in which the model has 60 s to begin and 60 s to go on."""

    async def on_stage() -> None:
        async with a_host() as host:
            plugin = FallbackPlugin(clock=anyio.current_time, health=MemoryHealth())
            plugin.settings_changed(settings(first_token_timeout="60s", stall_timeout="60s"), host)
            begin_turn(plugin, host)
            await scene(plugin, host)

    run_in_virtual_time(on_stage)


async def lose(plugin: FallbackPlugin, host: Host, *, begun: bool) -> None:
    """Lose the host in the middle of a silence, before or after the answer has begun, and let time pass."""
    if begun:
        speak(plugin, host)
    await anyio.sleep(30)
    plugin.host_lost()
    await anyio.sleep(GAP_S)


@pytest.mark.parametrize("begun", [False, True])
def test_no_silence_is_judged_while_the_host_is_not_heard(*, begun: bool) -> None:
    async def scene(plugin: FallbackPlugin, host: Host) -> None:
        await lose(plugin, host, begun=begun)
        assert (host.aborts, host.toasts) == ([], [])

    play(scene)


@pytest.mark.parametrize("begun", [False, True])
def test_a_silence_is_measured_from_the_moment_the_host_is_heard_again(*, begun: bool) -> None:
    async def scene(plugin: FallbackPlugin, host: Host) -> None:
        await lose(plugin, host, begun=begun)
        plugin.host_heard_again()
        await anyio.sleep(59)
        assert host.aborts == []
        await anyio.sleep(20)
        assert [prompt.model for prompt in host.prompts] == [A]

    play(scene)


def test_a_turn_that_is_shown_while_the_host_is_lost_is_timed_from_its_return() -> None:
    """What was heard before the loss may be handed on after it."""

    async def scene(plugin: FallbackPlugin, host: Host) -> None:
        plugin.host_lost()
        speak(plugin, host)
        await anyio.sleep(GAP_S)
        assert host.aborts == []
        plugin.host_heard_again()
        await anyio.sleep(80)
        assert [prompt.model for prompt in host.prompts] == [A]

    play(scene)


def test_a_turn_that_ended_unheard_is_not_judged() -> None:
    async def scene(plugin: FallbackPlugin, host: Host) -> None:
        plugin.host_lost()
        plugin.host_heard_again()
        plugin.session_idle(event("session.idle"), host)
        await anyio.sleep(GAP_S)
        assert (host.aborts, host.toasts) == ([], [])

    play(scene)


def test_silences_of_turns_that_may_have_ended_unheard_are_dropped() -> None:
    async def scene(plugin: FallbackPlugin, host: Host) -> None:
        plugin.host_lost()
        plugin.host_heard_again(sessions=())
        await anyio.sleep(GAP_S)
        assert (host.aborts, host.toasts) == ([], [])

    play(scene)


def test_a_host_lost_twice_is_waited_for_as_if_it_were_lost_once() -> None:
    async def scene(plugin: FallbackPlugin, host: Host) -> None:
        plugin.host_lost()
        plugin.host_lost()
        plugin.host_heard_again()
        await anyio.sleep(61)
        assert [prompt.model for prompt in host.prompts] == [A]

    play(scene)
