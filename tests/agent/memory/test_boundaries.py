"""When memory is committed: at boundaries, in the background, and a last time before the host ends."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio

from fallback_plugin.agent.memory import CommitWorker
from fallback_plugin.agent.memory.open_sessions import OpenSessions
from fallback_plugin.agent.memory.segments import FIRST_WAIT_S
from tests.agent.dispatch.stage import Stage, on_stage
from tests.agent.memory.providers import FakeProvider, Memory
from tests.agent.virtual_time import in_virtual_time


@asynccontextmanager
async def working(memory: Memory, *, threshold: int | None = None) -> AsyncIterator[CommitWorker]:
    worker = CommitWorker(memory.ledger, clock=anyio.current_time, threshold=threshold)
    async with anyio.create_task_group() as tasks:
        await tasks.start(worker.run)
        yield worker
        tasks.cancel_scope.cancel()


@asynccontextmanager
async def opened(
    memory: Memory, *, live: frozenset[str] = frozenset(), limit: int = 2
) -> AsyncIterator[OpenSessions]:
    async with working(memory) as worker:
        yield OpenSessions(memory.ledger, is_live=live.__contains__, start=worker.start, limit=limit)


def held() -> FakeProvider:
    return FakeProvider(gate=anyio.Event())


def let_go(provider: FakeProvider) -> None:
    assert provider.gate is not None
    provider.gate.set()


@in_virtual_time
async def test_d08_a_drain_waits_for_what_is_in_flight_and_takes_the_rest() -> None:
    provider = held()
    memory = Memory(provider)
    await memory.marked(1, "A")
    async with working(memory) as worker, anyio.create_task_group() as tasks:
        tasks.start_soon(memory.ledger.commit, "s")
        await anyio.wait_all_tasks_blocked()
        await memory.marked(1)
        tasks.start_soon(worker.drain)
        await anyio.wait_all_tasks_blocked()
        assert provider.calls == 1
        let_go(provider)

    assert provider.calls == 2
    assert await memory.ledger.dirty() == []


@in_virtual_time
async def test_d09_a_new_session_commits_the_one_before_in_the_background() -> None:
    provider = held()
    memory = Memory(provider)
    await memory.marked(1, "A", "previous")
    async with working(memory) as worker:
        assert worker.commit_soon("previous")
        await anyio.wait_all_tasks_blocked()
        assert provider.calls == 1
        let_go(provider)
        await anyio.wait_all_tasks_blocked()

    assert await memory.ledger.dirty() == []


@in_virtual_time
async def test_d10_what_is_evicted_is_committed_once_and_really_gone() -> None:
    provider = FakeProvider()
    memory = Memory(provider)
    async with opened(memory) as sessions:
        sessions.open("s", provider)
        await memory.marked(1)

        assert await sessions.evict("s")

        assert (provider.calls, provider.closed) == (1, 1)
        assert "s" not in sessions
        await memory.marked(1)
        assert not await memory.ledger.commit("s"), "nobody owns it any more"


@in_virtual_time
async def test_d11_an_eviction_waits_for_a_commit_and_takes_newer_turns_along() -> None:
    provider = held()
    memory = Memory(provider)
    async with opened(memory) as sessions:
        sessions.open("s", provider)
        await memory.marked(1)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(memory.ledger.commit, "s")
            await anyio.wait_all_tasks_blocked()
            await memory.marked(1)
            tasks.start_soon(sessions.evict, "s")
            tasks.start_soon(sessions.evict, "s")
            await anyio.wait_all_tasks_blocked()
            assert provider.closed == 0
            let_go(provider)

        assert (provider.calls, provider.closed) == (2, 1)


@in_virtual_time
async def test_d12_others_use_their_sessions_while_the_oldest_is_committed() -> None:
    slow, fast = held(), FakeProvider("B")
    memory = Memory(slow, fast)
    async with opened(memory, limit=2) as sessions:
        sessions.open("old", slow)
        await memory.marked(1, session_id="old")
        sessions.open("other", fast)
        sessions.open("new", fast)
        await anyio.wait_all_tasks_blocked()
        assert sessions.get("other") is fast
        sessions.open("other", fast)
        assert slow.closed == 0
        let_go(slow)
        await anyio.wait_all_tasks_blocked()

        assert slow.closed == 1
        assert "old" not in sessions
        assert "other" in sessions


@on_stage
async def test_d13_a_cleared_session_takes_prompts_while_its_memory_is_committed(stage: Stage) -> None:
    provider = held()
    memory = Memory(provider)
    async with opened(memory) as sessions:
        sessions.open("s", provider)
        await memory.marked(1)
        async with anyio.create_task_group() as tasks:
            async with stage.dispatcher.isolation.exclusive("s", "clear"):
                pass
            tasks.start_soon(sessions.evict, "s")
            await anyio.wait_all_tasks_blocked()
            await stage.send("a")
            assert stage.journal.outcomes() == [("a", "completed")]
            assert provider.closed == 0
            let_go(provider)


@in_virtual_time
async def test_what_cannot_be_committed_stays_open() -> None:
    provider = FakeProvider(failures=1)
    memory = Memory(provider)
    async with opened(memory) as sessions:
        sessions.open("s", provider)
        await memory.marked(1)

        assert not await sessions.evict("s")
        assert "s" in sessions
        assert provider.closed == 0
        assert await sessions.evict("s")


@in_virtual_time
async def test_a_live_session_is_not_closed() -> None:
    provider = FakeProvider()
    memory = Memory(provider)
    async with opened(memory, live=frozenset({"s"})) as sessions:
        sessions.open("s", provider)
        await memory.marked(1)

        assert not await sessions.evict("s")
        assert (provider.calls, provider.closed) == (0, 0)


@in_virtual_time
async def test_another_handle_for_a_session_closes_the_one_before() -> None:
    before, after = FakeProvider("A"), FakeProvider("B")
    memory = Memory(before, after)
    async with opened(memory) as sessions:
        sessions.open("s", before)
        await memory.marked(1)
        sessions.open("s", after)
        sessions.open("s", after)
        await anyio.wait_all_tasks_blocked()

        assert (before.calls, before.closed, after.closed) == (1, 1, 0)
        assert memory.ledger.owner("s") == "B"


@in_virtual_time
async def test_a_handle_that_was_replaced_is_open_until_it_has_its_turns() -> None:
    before, after = FakeProvider("A", failures=1), FakeProvider("B")
    memory = Memory(before, after)
    async with opened(memory) as sessions:
        sessions.open("s", before)
        await memory.marked(1)
        sessions.open("s", after)
        await anyio.wait_all_tasks_blocked()
        assert (before.calls, before.closed) == (1, 0)
        assert sessions.find("s", "A") is before

        assert await sessions.evict("s")
        assert (before.calls, before.closed, after.calls, after.closed) == (2, 1, 0, 1)


@in_virtual_time
async def test_a_handle_goes_along_to_the_new_id() -> None:
    provider = FakeProvider()
    memory = Memory(provider)
    async with opened(memory) as sessions:
        sessions.open("s", provider)
        await memory.marked(1)
        memory.rotate("s", "t")
        sessions.rotate("s", "t")
        await memory.marked(1, session_id="t")

        assert "s" not in sessions
        assert await sessions.evict("t")
        assert [(one.start, one.end) for one in provider.got] == [(1, 2)]
        assert provider.closed == 1


@in_virtual_time
async def test_a_handle_is_asked_for_anew_after_settings_changed() -> None:
    provider = FakeProvider()
    memory = Memory(provider)
    async with opened(memory) as sessions:
        sessions.open("s", provider)
        sessions.question()
        assert sessions.get("s") is None
        assert sessions.find("s", None) is provider, "turns are committed to it until there is another"

        sessions.open("s", provider)
        assert sessions.get("s") is provider
        assert provider.closed == 0, "it was the right one"


@in_virtual_time
async def test_a_handle_that_cannot_be_closed_keeps_no_other_open() -> None:
    class Broken(FakeProvider):
        async def close(self) -> None:
            await super().close()
            raise OSError("it is gone already")

    broken, healthy = Broken("A"), FakeProvider("B")
    memory = Memory(broken, healthy)
    async with opened(memory) as sessions:
        sessions.open("s", broken)
        sessions.open("t", healthy)

        await sessions.close()
        await sessions.close()

    assert (broken.closed, healthy.closed, len(sessions)) == (1, 1, 0)


@in_virtual_time
async def test_a_handle_is_not_closed_at_the_end_while_it_keeps_turns() -> None:
    provider = held()
    memory = Memory(provider)
    async with opened(memory) as sessions, anyio.create_task_group() as tasks:
        sessions.open("s", provider)
        await memory.marked(1)
        tasks.start_soon(memory.ledger.commit, "s")
        await anyio.wait_all_tasks_blocked()
        tasks.start_soon(sessions.close)
        await anyio.wait_all_tasks_blocked()
        assert provider.closed == 0
        let_go(provider)

    assert provider.closed == 1


@in_virtual_time
async def test_handles_do_not_add_up() -> None:
    provider = FakeProvider()
    memory = Memory(provider)
    async with opened(memory, limit=10) as sessions:
        for number in range(1_000):
            sessions.open(str(number), provider)
            await memory.marked(1, session_id=str(number))
            await anyio.wait_all_tasks_blocked()

        assert len(sessions) == 10
        assert provider.closed == 990
        assert len(memory.store.sessions) == 10


@in_virtual_time
async def test_a_drain_ends_at_its_deadline_and_names_what_is_left() -> None:
    hanging, healthy = held(), FakeProvider("B")
    memory = Memory(hanging, healthy)
    await memory.marked(1, "A", "stuck")
    await memory.marked(1, "B", "fine")
    async with working(memory) as worker:
        assert await worker.drain(30) == ["stuck"]
        assert anyio.current_time() == 30

    assert healthy.calls == 1, "one that hangs does not keep the others from their memory"


@in_virtual_time
async def test_a_drain_without_progress_ends() -> None:
    memory = Memory(FakeProvider(failures=100))
    await memory.marked(1, "A")
    async with working(memory) as worker:
        assert await worker.drain() == ["s"]


@in_virtual_time
async def test_a_drain_takes_on_what_comes_meanwhile() -> None:
    provider = held()
    memory = Memory(provider)
    await memory.marked(1, "A", "first")
    async with working(memory) as worker, anyio.create_task_group() as tasks:
        worker.commit_soon("first")
        await anyio.wait_all_tasks_blocked()
        tasks.start_soon(worker.drain)
        await anyio.wait_all_tasks_blocked()
        await memory.marked(1, "A", "second")
        assert not worker.commit_soon("second")
        let_go(provider)

    assert [one.session_id for one in provider.got] == ["first", "second"]


@in_virtual_time
async def test_a_failed_commit_is_repeated_when_it_is_due() -> None:
    provider = FakeProvider(failures=1)
    memory = Memory(provider)
    await memory.marked(1, "A")
    async with working(memory) as worker:
        worker.commit_soon("s")
        await anyio.sleep(FIRST_WAIT_S - 1)
        assert provider.calls == 1
        await anyio.sleep(FIRST_WAIT_S)

    assert provider.calls == 2
    assert await memory.ledger.dirty() == []


@in_virtual_time
async def test_a_session_without_a_boundary_is_committed_at_the_threshold() -> None:
    provider = FakeProvider()
    memory = Memory(provider)
    async with working(memory, threshold=3) as worker:
        for turn in range(1, 4):
            await memory.marked(1, "A")
            worker.turn_completed("s", turn)
            await anyio.wait_all_tasks_blocked()
            assert provider.calls == (1 if turn == 3 else 0)
