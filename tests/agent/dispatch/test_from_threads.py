"""Prompts and cancels from threads that are not the event loop's."""

from concurrent.futures import ThreadPoolExecutor

import anyio
import anyio.to_thread
import pytest

from fallback_plugin.agent.dispatch import DispatcherFromThreads
from fallback_plugin.errors import AgentError
from tests.agent.dispatch.stage import Stage, prompt

pytestmark = pytest.mark.anyio


async def test_threads_get_the_same_answers() -> None:
    stage = Stage()
    stage.hold("held")
    threads = DispatcherFromThreads(stage.dispatcher)

    def use() -> None:
        run = threads.accept("s", prompt("a")).run
        threads.wait(run.id)
        held = threads.accept("s", prompt("held")).run
        assert threads.status("s").is_busy
        threads.cancel("s")
        threads.wait(held.id)
        with pytest.raises(AgentError):
            threads.accept("nowhere", prompt("b"))

    async with anyio.create_task_group() as tasks:
        await tasks.start(stage.dispatcher.run)
        with ThreadPoolExecutor(1) as pool:
            future = pool.submit(use)
            await anyio.to_thread.run_sync(future.result)
        await stage.dispatcher.stop()

    assert stage.journal.outcomes() == [("a", "completed"), ("held", "cancelled")]


async def test_many_threads_at_once_lose_nothing() -> None:
    stage = Stage()

    async with anyio.create_task_group() as tasks:
        await tasks.start(stage.dispatcher.run)
        with ThreadPoolExecutor(8) as pool:
            texts = [str(number) for number in range(64)]
            accept = DispatcherFromThreads(stage.dispatcher).accept
            futures = [pool.submit(accept, "s", prompt(text)) for text in texts]
            for future in futures:
                run = (await anyio.to_thread.run_sync(future.result)).run
                await stage.dispatcher.wait(run.id)
        await stage.dispatcher.stop()

    assert sorted(stage.journal.outcomes()) == sorted((text, "completed") for text in texts)
    assert stage.turns.most == 1


async def test_a_host_that_does_not_run_refuses() -> None:
    with pytest.raises(AgentError, match="does not run"):
        DispatcherFromThreads(Stage().dispatcher).status("s")
