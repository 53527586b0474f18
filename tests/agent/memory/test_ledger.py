"""The reference's tests D1 to D16, and what the contract adds to them (D.5, D.6)."""

import anyio
import pytest

from fallback_plugin.agent.memory import CommitWorker, Segment, SessionMemory
from fallback_plugin.agent.memory.segments import FIRST_WAIT_S, LONGEST_WAIT_S, MAX_ATTEMPTS
from tests.agent.memory.providers import FakeProvider, Memory
from tests.agent.virtual_time import in_virtual_time


@in_virtual_time
async def test_d01_a_turn_marked_during_a_commit_stays_to_be_committed() -> None:
    provider = FakeProvider(gate=anyio.Event())
    memory = Memory(provider)
    await memory.marked(1, "A")
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(memory.ledger.commit, "s")
        await anyio.wait_all_tasks_blocked()
        await memory.marked(1)
        assert [(one.start, one.end) for one in memory.stored().segments] == [(1, 1), (2, 2)]
        assert provider.gate is not None
        provider.gate.set()

    assert provider.calls == 1
    assert await memory.ledger.has_uncommitted("s")
    assert await memory.ledger.commit("s")
    assert [(one.start, one.end) for one in provider.got] == [(1, 1), (2, 2)]
    assert not await memory.ledger.has_uncommitted("s")


@in_virtual_time
async def test_d02_a_failed_commit_is_repeated() -> None:
    provider = FakeProvider(failures=1)
    memory = Memory(provider)
    await memory.marked(1, "A")

    assert not await memory.ledger.commit("s")
    assert await memory.ledger.has_uncommitted("s")
    assert await memory.ledger.commit("s")
    assert provider.calls == 2
    assert not await memory.ledger.has_uncommitted("s")


@in_virtual_time
async def test_d03_an_owner_given_with_a_commit_is_remembered() -> None:
    provider = FakeProvider("X", failures=1)
    memory = Memory(provider)
    await memory.marked(1)

    assert not await memory.ledger.commit("s", "X")
    assert await memory.ledger.commit("s")
    assert provider.calls == 2


@in_virtual_time
async def test_d04_a_failed_segment_stays_its_owners_when_another_is_registered() -> None:
    old, new = FakeProvider("old", failures=1), FakeProvider("new")
    memory = Memory(old, new)
    await memory.marked(1, "old")
    await memory.ledger.commit("s")
    memory.ledger.register("s", "new")

    assert await memory.ledger.commit("s")
    assert (old.calls, new.calls) == (2, 0)
    await memory.marked(1)
    assert await memory.ledger.commit("s")
    assert (old.calls, new.calls) == (2, 1)


@in_virtual_time
async def test_d05_each_owner_gets_its_own_turns_the_older_first() -> None:
    old, new = FakeProvider("old", failures=1), FakeProvider("new")
    memory = Memory(old, new)
    await memory.marked(1, "old")
    await memory.ledger.commit("s")
    await memory.marked(1, "new")

    assert await memory.ledger.commit("s", "new")
    assert (old.calls, new.calls) == (2, 0)
    assert await memory.ledger.has_uncommitted("s")
    assert await memory.ledger.commit("s")
    assert new.calls == 1
    assert not await memory.ledger.has_uncommitted("s")


@in_virtual_time
async def test_d06_without_a_turn_there_is_nothing_to_commit() -> None:
    provider = FakeProvider()
    memory = Memory(provider)
    memory.ledger.register("s", "A")

    assert not await memory.ledger.commit("s")
    assert provider.calls == 0
    assert not await memory.ledger.has_uncommitted("s")


@in_virtual_time
async def test_d07_turns_outlive_their_owners_registration() -> None:
    provider = FakeProvider()
    memory = Memory(provider)
    await memory.marked(1, "A")
    memory.ledger.unregister("s")

    assert await memory.ledger.commit("s", "A")
    assert provider.calls == 1
    assert not await memory.ledger.has_uncommitted("s")


@in_virtual_time
async def test_d14_a_turns_end_marks_and_commits_nothing() -> None:
    provider = FakeProvider()
    memory = Memory(provider)

    await memory.marked(3, "A")

    assert provider.calls == 0
    assert memory.stored() == SessionMemory(3, (Segment(start=1, end=3, owner_key="A"),))


@in_virtual_time
async def test_d15_three_turns_of_one_owner_are_one_call() -> None:
    provider = FakeProvider()
    memory = Memory(provider)
    await memory.marked(3, "A")

    assert await memory.ledger.commit("s")
    assert not await memory.ledger.commit("s")
    assert [(one.start, one.end) for one in provider.got] == [(1, 3)]


@pytest.mark.parametrize("session_id", ["", None])
def test_d16_without_a_session_nothing_happens(session_id: str | None) -> None:
    async def play() -> None:
        ledger = Memory(FakeProvider()).ledger
        ledger.register(session_id, "A")
        ledger.unregister(session_id)
        assert await ledger.mark_turn_completed(session_id, "A") == 0
        assert not await ledger.has_uncommitted(session_id)
        assert not await ledger.commit(session_id)
        assert not await ledger.discard(session_id)

    in_virtual_time(play)()


@in_virtual_time
async def test_a_failed_commit_and_a_further_turn_are_one_retry() -> None:
    provider = FakeProvider(failures=1)
    memory = Memory(provider)
    await memory.marked(1, "A")
    await memory.ledger.commit("s")
    await memory.marked(1)

    assert await memory.ledger.commit("s")
    assert [(one.start, one.end, one.key) for one in provider.got] == [(1, 1, "s:1-1"), (1, 2, "s:1-2")]
    assert not await memory.ledger.has_uncommitted("s")


@in_virtual_time
async def test_two_boundaries_at_once_are_one_call() -> None:
    provider = FakeProvider(gate=anyio.Event())
    memory = Memory(provider)
    await memory.marked(1, "A")
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(memory.ledger.commit, "s")
        await anyio.wait_all_tasks_blocked()
        assert not await memory.ledger.commit("s")
        assert provider.gate is not None
        provider.gate.set()

    assert provider.calls == 1


@in_virtual_time
async def test_a_commit_waits_for_another_no_longer_than_it_may() -> None:
    provider = FakeProvider(gate=anyio.Event())
    memory = Memory(provider)
    await memory.marked(1, "A")
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(memory.ledger.commit, "s")
        await anyio.wait_all_tasks_blocked()
        before = anyio.current_time()
        assert not await memory.ledger.commit("s", wait=True, timeout_s=5)
        assert anyio.current_time() - before == 5
        assert provider.gate is not None
        provider.gate.set()


@in_virtual_time
async def test_a_segment_without_an_owner_waits_for_one() -> None:
    memory = Memory(FakeProvider())
    await memory.marked(1)

    assert not await memory.ledger.commit("s")
    assert await memory.ledger.has_uncommitted("s")


@in_virtual_time
async def test_an_owner_that_is_gone_is_a_visible_failure() -> None:
    memory = Memory()
    await memory.marked(1, "gone")

    assert not await memory.ledger.commit("s")
    assert memory.stored().segments[0].last_error == "there is no memory provider 'gone'"


@in_virtual_time
async def test_retries_come_later_and_later_and_end_in_a_visible_state() -> None:
    memory = Memory(FakeProvider(failures=100))
    await memory.marked(1, "A")
    waits = []
    for _ in range(MAX_ATTEMPTS - 1):
        await memory.ledger.commit("s")
        waits.append((await memory.ledger.due())["s"])
    await memory.ledger.commit("s")

    assert waits == [min(FIRST_WAIT_S * 2**n, LONGEST_WAIT_S) for n in range(MAX_ATTEMPTS - 1)]
    (segment,) = memory.stored().segments
    assert (segment.state, segment.attempts, segment.last_error) == (
        "failed",
        MAX_ATTEMPTS,
        "the memory is full",
    )
    assert await memory.ledger.due() == {}


@in_virtual_time
async def test_a_boundary_tries_a_failed_segment_again() -> None:
    provider = FakeProvider(failures=MAX_ATTEMPTS)
    memory = Memory(provider)
    await memory.marked(1, "A")
    for _ in range(MAX_ATTEMPTS):
        await memory.ledger.commit("s")

    assert await memory.ledger.commit("s")
    assert {segment.key for segment in provider.got} == {"s:1-1"}


@in_virtual_time
async def test_what_a_restart_cut_off_comes_again_under_the_same_name() -> None:
    provider = FakeProvider()
    memory = Memory(provider)
    await memory.marked(2, "A")
    await memory.store.change("s", lambda stored: stored.begun("s", None))

    await memory.ledger.recover()
    await memory.ledger.recover()

    assert memory.stored().segments[0].state == "dirty"
    assert await memory.ledger.commit("s")
    assert provider.got[0].key == "s:1-2"


@in_virtual_time
async def test_a_commit_that_is_cut_off_is_to_be_repeated() -> None:
    memory = Memory(FakeProvider(gate=anyio.Event()))
    await memory.marked(1, "A")
    with anyio.move_on_after(1):
        await memory.ledger.commit("s")

    (segment,) = memory.stored().segments
    assert (segment.state, segment.last_error) == ("dirty", "it was cut off")


@in_virtual_time
async def test_a_new_id_takes_over_owner_and_segments() -> None:
    provider = FakeProvider(failures=1)
    memory = Memory(provider)
    await memory.marked(2, "A")
    await memory.ledger.commit("s")

    memory.rotate("s", "t")
    await memory.marked(1, session_id="t")

    assert not await memory.ledger.has_uncommitted("s")
    assert await memory.ledger.commit("t")
    assert [(one.session_id, one.start, one.end) for one in provider.got] == [("s", 1, 2), ("t", 1, 3)]


@in_virtual_time
async def test_a_new_id_during_a_commit_ends_it_under_the_new_one() -> None:
    provider = FakeProvider(gate=anyio.Event())
    memory = Memory(provider)
    await memory.marked(1, "A")
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(memory.ledger.commit, "s")
        await anyio.wait_all_tasks_blocked()
        memory.rotate("s", "t")
        assert not await memory.ledger.commit("t"), "it is under way"
        assert provider.gate is not None
        provider.gate.set()

    assert await memory.ledger.dirty() == []


@in_virtual_time
async def test_only_a_clean_session_is_let_go() -> None:
    memory = Memory(FakeProvider())
    assert await memory.ledger.discard("unknown")
    await memory.marked(1, "A")
    assert not await memory.ledger.discard("s")
    await memory.ledger.commit("s")

    assert await memory.ledger.discard("s")
    assert memory.store.sessions == {}
    assert memory.ledger.owner("s") is None


def test_a_partly_covered_segment_keeps_its_rest() -> None:
    memory = SessionMemory(
        4, (Segment(start=1, end=2, owner_key="A"), Segment(start=3, end=4, owner_key="B"))
    )

    assert memory.succeeded(1, 3) == SessionMemory(4, (Segment(start=4, end=4, owner_key="B"),))
    assert memory.succeeded(1, 3).committed == 3


@in_virtual_time
async def test_H8_turns_of_an_owner_that_is_gone_keep_no_other_owner_waiting() -> None:
    here = FakeProvider("here")
    memory = Memory(here)
    await memory.marked(2, "gone")
    await memory.marked(2, "here")
    await memory.marked(1, "gone")

    assert await memory.ledger.commit("s")
    assert not await memory.ledger.commit("s")
    await memory.marked(1, "here")
    assert await memory.ledger.commit("s")

    assert [(segment.start, segment.end) for segment in here.got] == [(3, 4), (6, 6)]
    left = memory.stored().segments
    assert [(each.start, each.end, each.owner_key) for each in left] == [(1, 2, "gone"), (5, 5, "gone")]
    assert left[0].last_error == "there is no memory provider 'gone'"


@in_virtual_time
async def test_H8_an_owner_that_comes_back_gets_its_turns_in_their_order() -> None:
    here, gone = FakeProvider("here"), FakeProvider("gone", failures=1)
    memory = Memory(here, gone)
    for owner in ("gone", "here", "gone", "here"):
        await memory.marked(1, owner)

    while await memory.ledger.commit("s"):
        pass

    assert [segment.start for segment in here.got] == [2, 4]
    assert [segment.start for segment in gone.got] == [1, 1, 3]
    assert memory.stored().is_clean


@in_virtual_time
async def test_H8_a_pass_asks_an_owner_that_is_gone_once() -> None:
    here = FakeProvider("here")
    memory = Memory(here)
    for owner in ("gone", "here", "other", "here", "other", "here"):
        await memory.marked(1, owner)
    worker = CommitWorker(memory.ledger, clock=lambda: memory.now)
    async with anyio.create_task_group() as tasks:
        await tasks.start(worker.run)
        worker.commit_soon("s")
        await worker.quiet()
        tasks.cancel_scope.cancel()

    assert [segment.start for segment in here.got] == [2, 4, 6]
    assert [segment.attempts for segment in memory.stored().segments] == [1, 1, 0]


def test_H8_turns_of_one_owner_are_no_segment_over_a_turn_that_was_kept() -> None:
    memory = SessionMemory().marked("gone").marked("here").succeeded(2, 2).marked("gone")

    assert [(each.start, each.end) for each in memory.segments] == [(1, 1), (3, 3)]
