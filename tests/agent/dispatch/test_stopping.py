"""The host stops: what is active unwinds, what has not begun is kept for the next start."""

from collections.abc import Awaitable, Callable

import anyio
import pytest

from fallback_plugin.agent.records import Run
from fallback_plugin.errors import AgentError
from tests.agent.dispatch.scripted_turns import Stuck
from tests.agent.dispatch.stage import Stage, on_stage
from tests.agent.virtual_time import run_in_virtual_time


@on_stage
async def test_w7_every_lane_is_stopped_and_nothing_more_is_accepted(stage: Stage) -> None:
    stage.journal.sessions.add("t")
    stage.hold("a")
    stage.hold("b")
    await stage.send("a", "waiting")
    await stage.send("b", session_id="t")

    assert await stage.dispatcher.stop()

    assert sorted(stage.journal.outcomes()) == [("a", "cancelled"), ("b", "cancelled")]
    assert stage.journal.states()["waiting"] == "queued", "to be held at the next start"
    with pytest.raises(AgentError) as refused:
        await stage.accept("c")
    assert refused.value.status == 503


@on_stage
async def test_a_prompt_being_accepted_is_kept_and_its_caller_learns_its_id(stage: Stage) -> None:
    gate = anyio.Event()
    stage.journal.pause = gate.wait
    accepted = []

    async def accept() -> None:
        accepted.append(await stage.accept("a"))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(accept)
        await stage.quiet()
        tasks.start_soon(stage.dispatcher.stop)
        await stage.quiet()
        gate.set()

    assert [one.run.prompt.text for one in accepted] == ["a"]
    assert stage.journal.states() == {"a": "accepted"}
    assert stage.journal.history() == []


@on_stage
async def test_a_prompt_that_goes_on_to_another_session_is_kept_as_well(stage: Stage) -> None:
    gate = anyio.Event()
    stage.journal.pause = gate.wait
    stage.journal.continued["s"] = "t"
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(stage.accept, "a")
        await stage.quiet()
        tasks.start_soon(stage.dispatcher.stop)
        await stage.quiet()
        gate.set()

    assert stage.journal.states() == {"a": "accepted"}


@on_stage
async def test_a_persons_cancel_before_the_stop_counts(stage: Stage) -> None:
    gate = anyio.Event()
    stage.journal.pause = gate.wait
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(stage.accept, "a")
        await stage.quiet()
        await stage.dispatcher.cancel("s")
        tasks.start_soon(stage.dispatcher.stop)
        await stage.quiet()
        gate.set()

    assert stage.journal.outcomes() == [("a", "cancelled")]


@on_stage
async def test_who_waits_for_a_kept_run_is_told(stage: Stage) -> None:
    stage.hold("a")
    await stage.send("a")
    waiting = await stage.accept("waiting")

    async def wait() -> None:
        with pytest.raises(AgentError, match="kept until it starts again"):
            await stage.dispatcher.wait(waiting.run.id)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(wait)
        await stage.quiet()
        tasks.start_soon(stage.dispatcher.stop)


@on_stage
async def test_a_run_not_yet_begun_is_kept(stage: Stage) -> None:
    stage.hold("a")
    gate = anyio.Event()
    await stage.send("a", "b")
    stage.journal.pause = gate.wait
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(stage.dispatcher.cancel, "s", "current")
        await stage.quiet()
        tasks.start_soon(stage.dispatcher.stop)
        await stage.quiet()
        gate.set()

    assert stage.journal.states() == {"a": "ended", "b": "queued"}


@on_stage
async def test_a_run_that_is_being_prepared_is_kept(stage: Stage) -> None:
    gate = anyio.Event()

    async def prepare(run: Run) -> Run:
        await gate.wait()
        return run

    stage.turns.prepare_with = prepare
    await stage.send("a")
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(stage.dispatcher.stop)
        await stage.quiet()
        gate.set()

    assert stage.journal.states() == {"a": "accepted"}


@on_stage
async def test_a_stop_waits_no_longer_than_the_watchdog(stage: Stage) -> None:
    stuck = Stuck()
    stage.script(a=stuck)
    await stage.send("a")

    assert not await stage.dispatcher.stop()

    assert stage.journal.outcomes() == [("a", "cancelled")]
    assert stage.journal.statuses() == ["busy", "idle"]
    stuck.gate.set()


@on_stage
async def test_an_undo_is_waited_for(stage: Stage) -> None:
    stopped = anyio.Event()

    async def stop() -> None:
        assert await stage.dispatcher.stop()
        stopped.set()

    async with anyio.create_task_group() as tasks, stage.dispatcher.isolation.exclusive("s", "undo"):
        await stage.send("a")
        tasks.start_soon(stop)
        await stage.quiet()
        assert not stopped.is_set()

    assert stage.journal.states() == {"a": "queued"}


def stopped_by(stop: Callable[[anyio.abc.TaskGroup], Awaitable[None]]) -> Stage:
    stage = Stage()
    stage.hold("a")

    async def play() -> None:
        async with anyio.create_task_group() as tasks:
            await tasks.start(stage.dispatcher.run)
            await stage.send("a")
            await stop(tasks)

    run_in_virtual_time(play)
    return stage


def test_a_cancelled_host_lets_its_turns_unwind_in_good_order() -> None:
    async def cancel(tasks: anyio.abc.TaskGroup) -> None:
        tasks.cancel_scope.cancel()

    stage = stopped_by(cancel)

    assert stage.journal.history() == [("user", "a"), ("assistant", "[cancelled]")]
    assert stage.journal.statuses() == ["busy", "idle"]
    stage.assert_nothing_left()
