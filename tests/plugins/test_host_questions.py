"""Questions: the first answer wins, in time or not at all."""

import logging
from typing import Any

import anyio
import pytest

from fallback_plugin import ModelRef, hookimpl
from fallback_plugin.hookspecs import PromptRequest
from fallback_plugin.plugins import Limits, PluginHost
from tests.plugins.fake_calls import Clock, host_of, idle, publish, running

pytestmark = pytest.mark.anyio

A, B = ModelRef("p", "a"), ModelRef("p", "b")
REQUEST = PromptRequest(session_id="s")


class Plain:
    def __init__(self, answer: object) -> None:
        self.answer = answer
        self.asked = 0

    @hookimpl
    def chat_message(self, request: PromptRequest) -> object:
        self.asked += request is REQUEST
        return self.answer


class Async(Plain):
    @hookimpl
    async def chat_message(self, request: PromptRequest) -> object:
        await anyio.lowlevel.checkpoint()
        return super().chat_message(request)


class Raising:
    @hookimpl
    async def chat_message(self) -> None:
        raise ValueError("no")


class Hanging:
    def __init__(self) -> None:
        self.cut = False

    @hookimpl
    async def chat_message(self) -> None:
        try:
            await anyio.sleep_forever()
        finally:
            self.cut = True


async def ask(host: PluginHost) -> Any:
    async with running(host):
        return await host.ask("chat_message", session_id="s", request=REQUEST)


@pytest.mark.parametrize("kind", [Plain, Async])
async def test_an_answer_comes_back(kind: type[Plain]) -> None:
    assert await ask(host_of(kind(A))) == A


async def test_the_plugin_registered_last_is_asked_first_and_its_answer_wins() -> None:
    early, late = Async(A), Plain(B)

    answer = await ask(host_of(early, late))

    assert (answer, early.asked, late.asked) == (B, 0, 1)


@pytest.mark.parametrize("silent", [Plain(None), Async(None)], ids=["plain", "async"])
async def test_none_is_no_answer(silent: Plain) -> None:
    assert await ask(host_of(Plain(A), silent)) == A


async def test_without_any_answer_there_is_none() -> None:
    assert await ask(host_of(Async(None), Plain(None))) is None


async def test_without_any_implementation_there_is_none() -> None:
    assert await ask(host_of()) is None


async def test_a_raising_plugin_is_passed_over(caplog: pytest.LogCaptureFixture) -> None:
    answer = await ask(host_of(Async(A), broken=Raising()))

    assert answer == A
    assert "plugin 'broken' (explicit) failed in chat_message" in caplog.records[0].message


async def test_a_hanging_plugin_is_cut_and_the_next_one_is_asked() -> None:
    hanging = Hanging()

    answer = await ask(host_of(Plain(A), hanging, limits=Limits(question_s=0.02), clock=Clock()))

    assert (answer, hanging.cut) == (A, True)


async def test_no_plugin_gets_more_than_its_share_of_the_time() -> None:
    times: list[float] = []

    class Timed:
        @hookimpl
        async def chat_message(self) -> None:
            times.append(anyio.current_effective_deadline() - anyio.current_time())

    await ask(host_of(Timed(), Timed(), limits=Limits(question_s=60), clock=Clock()))

    first, second = times
    assert 0 < first <= 30 < second <= 60


async def test_a_wrong_answer_is_passed_over_and_named(caplog: pytest.LogCaptureFixture) -> None:
    answer = await ask(host_of(Async(A), wrong=Plain("p/m")))

    assert answer == A
    assert "'wrong'" in caplog.records[0].message


async def test_a_plugin_for_which_no_time_is_left_is_not_asked(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    plugin = Plain(A)

    answer = await ask(host_of(plugin, limits=Limits(question_s=0)))

    assert (answer, plugin.asked) == (None, 0)
    assert "no time was left to ask plugin 'p0' chat_message" in caplog.messages


async def test_a_plugin_that_blocked_is_named_and_its_answer_counts(caplog: pytest.LogCaptureFixture) -> None:
    clock = Clock()

    class Blocking:
        @hookimpl
        def chat_message(self) -> ModelRef:
            clock.now += 7
            return A

    answer = await ask(host_of(slow=Blocking(), clock=clock))

    assert answer == A
    assert "plugin 'slow' (explicit) failed in chat_message" in caplog.text
    assert "it blocked the host for longer than its deadline" in caplog.text


async def test_a_tool_result_may_take_its_longer_time() -> None:
    limits = Limits(question_s=0, tool_result_s=60)

    assert limits.question_deadline_s("tool_after") == 60
    assert limits.question_deadline_s("tool_before") == 0


class Ordered:
    """Hold an event open, and answer with what was seen until then."""

    def __init__(self) -> None:
        self.entered = anyio.Event()
        self.opened = anyio.Event()
        self.asked = anyio.Event()
        self.seen = 0

    @hookimpl
    async def session_idle(self) -> None:
        self.entered.set()
        await self.opened.wait()
        self.seen += 1

    @hookimpl
    def chat_message(self) -> ModelRef:
        self.asked.set()
        return ModelRef("seen", str(self.seen))


async def test_a_question_waits_for_the_sessions_earlier_events() -> None:
    plugin = Ordered()
    answers: list[object] = []
    limits = Limits(order_wait_s=60, question_s=60)

    async def question(host: PluginHost) -> None:
        answers.append(await host.ask("chat_message", session_id="s", request=REQUEST))

    async with running(host_of(plugin, limits=limits)) as host, anyio.create_task_group() as tasks:
        publish(host, idle("s"), idle("s"))
        tasks.start_soon(question, host)
        await plugin.entered.wait()
        plugin.opened.set()

    assert answers == [ModelRef("seen", "2")]


async def test_a_question_overtakes_events_that_take_too_long() -> None:
    plugin = Ordered()
    async with running(host_of(plugin, limits=Limits(order_wait_s=0))) as host:
        publish(host, idle("s"))
        await plugin.entered.wait()

        answer = await host.ask("chat_message", session_id="s", request=REQUEST)
        plugin.opened.set()

    assert answer == ModelRef("seen", "0")


async def test_a_question_does_not_hold_up_later_events() -> None:
    class Waiting:
        def __init__(self) -> None:
            self.idle = anyio.Event()

        @hookimpl
        async def chat_message(self) -> ModelRef:
            await self.idle.wait()
            return A

        @hookimpl
        def session_idle(self) -> None:
            self.idle.set()

    host = host_of(Waiting(), limits=Limits(question_s=60))
    answers: list[object] = []

    async def question() -> None:
        answers.append(await host.ask("chat_message", session_id="s", request=REQUEST))

    async with running(host), anyio.create_task_group() as tasks:
        tasks.start_soon(question)
        await anyio.lowlevel.checkpoint()
        publish(host, idle("s"))

    assert answers == [A]


async def test_a_host_that_does_not_run_has_no_answer() -> None:
    host = host_of(Plain(A))

    before = await host.ask("chat_message", session_id="s", request=REQUEST)
    async with running(host):
        pass
    after = await host.ask("chat_message", session_id="s", request=REQUEST)

    assert (before, after) == (None, None)


async def test_a_question_with_other_arguments_than_its_hooks_is_a_mistake() -> None:
    with pytest.raises(TypeError, match=r"chat_message takes \['request'\], but was given \['message'\]"):
        await host_of().ask("chat_message", session_id=None, message=1)


@pytest.mark.parametrize("hook", ["session_idle", "chat_mesage"])
async def test_only_first_result_hooks_can_be_asked(hook: str) -> None:
    with pytest.raises(ValueError, match=hook):
        await host_of().ask(hook, session_id=None)
