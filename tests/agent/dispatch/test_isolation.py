"""A session kept for one operation, an undo or a deletion; and its going on under a new id."""

import anyio
import pytest

from fallback_plugin.agent.dispatch import LaneStatus
from fallback_plugin.agent.dispatch.accept_sequence import AcceptSequence
from fallback_plugin.agent.dispatch.lane_table import LaneTable
from fallback_plugin.errors import AgentError
from tests.agent.dispatch.scripted_turns import Stuck
from tests.agent.dispatch.stage import Stage, on_stage


@on_stage
async def test_an_undo_needs_an_idle_session(stage: Stage) -> None:
    held = stage.hold("a")
    await stage.send("a")

    with pytest.raises(AgentError, match="undo: session s is busy") as refused:
        async with stage.dispatcher.isolation.exclusive("s", "undo"):
            pass

    assert refused.value.status == 409
    held.gate.set()


@on_stage
async def test_prompts_wait_behind_an_undo(stage: Stage) -> None:
    async with stage.dispatcher.isolation.exclusive("s", "undo"):
        await stage.send("a")
        assert stage.turns.begun == []

    await stage.quiet()
    assert stage.journal.outcomes() == [("a", "completed")]
    assert stage.journal.statuses() == ["busy", "idle"]


@on_stage
async def test_two_undos_do_not_overlap(stage: Stage) -> None:
    async with stage.dispatcher.isolation.exclusive("s", "undo"):
        with pytest.raises(AgentError):
            async with stage.dispatcher.isolation.exclusive("s", "undo"):
                pass


@on_stage
async def test_an_undo_that_fails_gives_the_session_back(stage: Stage) -> None:
    with pytest.raises(ValueError, match="no such message"):
        async with stage.dispatcher.isolation.exclusive("s", "undo"):
            raise ValueError("no such message")
    await stage.send("a")

    assert stage.journal.outcomes() == [("a", "completed")]


@on_stage
async def test_an_undo_alone_is_no_busy_period(stage: Stage) -> None:
    async with stage.dispatcher.isolation.exclusive("s", "undo"):
        pass
    await stage.quiet()

    assert stage.journal.statuses() == []


@on_stage
async def test_a_deletion_cancels_first_and_refuses_prompts(stage: Stage) -> None:
    stage.hold("a")
    await stage.send("a", "b")
    async with stage.dispatcher.isolation.emptied("s"):
        assert sorted(stage.journal.outcomes()) == [("a", "cancelled"), ("b", "cancelled")]
        assert stage.journal.statuses() == ["busy", "idle"]
        with pytest.raises(AgentError, match="being deleted"):
            await stage.accept("c")
        await stage.journal.erase("s")

    with pytest.raises(AgentError) as refused:
        await stage.accept("c")
    assert refused.value.status == 404


@on_stage
async def test_a_prompt_being_accepted_when_a_deletion_comes_ends_before_it(stage: Stage) -> None:
    gate = anyio.Event()
    stage.journal.pause = gate.wait

    async def delete() -> None:
        async with stage.dispatcher.isolation.emptied("s"):
            assert stage.journal.outcomes() == [("a", "cancelled")]

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(stage.accept, "a")
        await stage.quiet()
        tasks.start_soon(delete)
        await stage.quiet()
        gate.set()


@on_stage
async def test_two_deletions_at_once_both_find_it_empty(stage: Stage) -> None:
    stage.hold("a")
    await stage.send("a")

    async def delete() -> None:
        async with stage.dispatcher.isolation.emptied("s"):
            assert stage.journal.outcomes() == [("a", "cancelled")]

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(delete)
        tasks.start_soon(delete)


@on_stage
async def test_a_deletion_does_not_wait_for_ever(stage: Stage) -> None:
    stuck = Stuck()
    stage.script(a=stuck)
    await stage.send("a")

    async with stage.dispatcher.isolation.emptied("s"):
        assert stage.journal.outcomes() == [("a", "cancelled")]

    stuck.gate.set()


def a_table() -> LaneTable:
    async def ids_of(session_id: str) -> list[str]:
        raise AssertionError(f"nobody asks for {session_id}")

    return LaneTable(AcceptSequence(), ids_of)


class TestRotation:
    def test_b24_old_and_new_id_resolve_to_one_lane_while_it_is_held(self) -> None:
        lanes = a_table()
        with lanes.hold("old") as held:
            lanes.alias(held, "new")

            with lanes.hold("new") as new, lanes.hold("old") as old:
                assert new is held
                assert old is held
            assert lanes.find("old") is held

        assert len(lanes) == 0

    def test_b25_a_concurrent_delete_does_not_part_them(self) -> None:
        lanes = a_table()
        with lanes.hold("old") as held:
            del lanes._lanes["old"]

            lanes.alias(held, "new")

            assert lanes.find("new") is held
            assert lanes.find("old") is held

    def test_an_id_at_work_itself_is_refused(self) -> None:
        lanes = a_table()
        with lanes.hold("old") as held, lanes.hold("new"), pytest.raises(AgentError, match="at work itself"):
            lanes.alias(held, "new")


@on_stage
async def test_b25_a_deletion_that_waits_while_the_session_is_renamed_finds_it_under_both_ids(
    stage: Stage,
) -> None:
    held = stage.hold("a")
    await stage.send("a")
    await stage.dispatcher.rotate("s", "t")
    await stage.journal.continue_in(stage.journal.runs["run_1"], "t")
    async with stage.dispatcher.isolation.emptied("t"):
        assert stage.journal.outcomes() == [("a", "cancelled")]
        with pytest.raises(AgentError, match="being deleted"):
            await stage.accept("b")
    held.gate.set()


@on_stage
async def test_a_renamed_session_is_busy_and_cancelled_under_both_ids(stage: Stage) -> None:
    stage.hold("a")
    await stage.send("a")
    await stage.dispatcher.rotate("s", "t")

    assert stage.dispatcher.status("t") == stage.dispatcher.status("s") == LaneStatus(1, 0, 0, is_busy=True)
    await stage.dispatcher.cancel("t")
    await stage.quiet()

    assert stage.journal.outcomes() == [("a", "cancelled")]
    assert stage.journal.statuses("s") == ["busy", "idle"]
    assert stage.journal.statuses("t") == ["busy", "idle"]


@on_stage
async def test_a_prompt_for_the_old_id_of_an_idle_session_takes_the_lane_of_the_new_one(stage: Stage) -> None:
    stage.journal.sessions.add("t")
    stage.journal.continued["s"] = "t"
    stage.hold("a").gate.set()
    held = stage.hold("b")
    await stage.send("b", session_id="t")
    await stage.send("a", session_id="s")

    assert stage.dispatcher.status("t") == LaneStatus(1, 0, 1, is_busy=True)
    held.gate.set()
    await stage.quiet()
    assert stage.journal.outcomes() == [("b", "completed"), ("a", "completed")]


@on_stage
async def test_a_stop_under_the_old_id_reaches_what_runs_under_the_new_one(stage: Stage) -> None:
    stage.journal.sessions.add("t")
    stage.journal.continued["s"] = "t"
    stage.hold("a")
    await stage.send("a", session_id="t")

    assert stage.dispatcher.status("s") == stage.dispatcher.status("t")
    assert (await stage.dispatcher.cancel("s")).is_active
    await stage.quiet()
    assert stage.journal.outcomes() == [("a", "cancelled")]


@on_stage
async def test_an_unknown_session_is_renamed_without_a_trace(stage: Stage) -> None:
    await stage.dispatcher.rotate("s", "t")
