"""What users of other hosts reported, replayed here: rows E and S of the contract that dispatch answers.

W2 to W8 are the weaknesses of the reference that the contract decides about; W1 stands in `test_lane`, W7 in
`test_stopping`.
"""

import anyio

from fallback_plugin.agent.dispatch import LaneStatus
from fallback_plugin.agent.protocols import Steered
from fallback_plugin.agent.records import Run
from fallback_plugin.errors import FencedError
from tests.agent.dispatch.recording_journal import RecordingJournal
from tests.agent.dispatch.scripted_turns import Steps, Stuck, answer, fails
from tests.agent.dispatch.stage import WATCHDOG_S, Stage, on_stage


@on_stage
async def test_w2_a_dropped_prompt_is_kept_as_a_cancelled_turn_and_given_back(stage: Stage) -> None:
    stage.hold("a")
    await stage.send("a", "typed with care")

    hit = await stage.dispatcher.cancel("s")

    assert [run.prompt.text for run in hit.dropped] == ["typed with care"]
    assert ("user", "typed with care") in stage.journal.history()


@on_stage
async def test_w4_a_terminal_does_not_wait_for_the_successor(stage: Stage) -> None:
    first, second = stage.hold("a"), stage.hold("b")
    await stage.send("a", "b")
    first.gate.set()
    await stage.quiet()

    assert stage.turns.begun == ["a", "b"]
    assert stage.journal.outcomes() == [("a", "completed")]
    second.gate.set()


@on_stage
async def test_w4_a_long_queue_needs_no_deep_stack(stage: Stage) -> None:
    held = stage.hold("first")
    await stage.send("first")
    runs = [(await stage.accept(str(number))).run for number in range(2_000)]
    held.gate.set()
    await stage.dispatcher.wait(runs[-1].id)

    assert [text for text, _ in stage.journal.outcomes()[1:]] == [str(number) for number in range(2_000)]


@on_stage
async def test_w5_w6_a_turn_that_compacts_keeps_its_lane_and_is_not_dropped_by_an_older_cancel(
    stage: Stage,
) -> None:
    compacting = anyio.Event()

    async def compacts(journal: RecordingJournal, run: Run, steered: Steered) -> None:
        await compacting.wait()
        await stage.dispatcher.rotate("s", "t")
        await answer(journal, run, steered)

    stage.script(a=compacts)
    gate = anyio.Event()
    async with anyio.create_task_group() as tasks:
        stage.journal.pause = gate.wait
        tasks.start_soon(stage.accept, "covered")
        await stage.quiet()
        await stage.dispatcher.cancel("s")
        tasks.start_soon(stage.accept, "a")
        gate.set()
        await stage.quiet()
        await stage.accept("b")
        compacting.set()
    await stage.quiet()

    assert stage.journal.outcomes() == [("covered", "cancelled"), ("a", "completed"), ("b", "completed")]


@on_stage
async def test_w8_a_terminal_is_written_before_anybody_is_told(stage: Stage) -> None:
    accepted = await stage.accept("a")
    await stage.dispatcher.wait(accepted.run.id)

    assert stage.journal.runs[accepted.run.id].state == "ended"


@on_stage
async def test_report_E1_a_long_tool_is_cancelled_and_the_session_idle_within_a_bound(stage: Stage) -> None:
    stuck = Stuck()
    stage.script(a=stuck)
    await stage.send("a")

    await stage.dispatcher.cancel("s")
    assert stage.dispatcher.status("s").is_busy
    await anyio.sleep(WATCHDOG_S + 0.1)

    assert not stage.dispatcher.status("s").is_busy
    stuck.gate.set()


@on_stage
async def test_report_E6_an_idle_cancel_does_not_hit_the_next_prompt(stage: Stage) -> None:
    await stage.dispatcher.cancel("s")
    await stage.send("a")

    assert stage.journal.outcomes() == [("a", "completed")]


@on_stage
async def test_report_E6_a_cancel_right_after_acceptance_is_not_lost(stage: Stage) -> None:
    stage.hold("a")
    await stage.accept("a")
    await stage.dispatcher.cancel("s")
    await stage.quiet()

    assert stage.journal.outcomes() == [("a", "cancelled")]


@on_stage
async def test_report_E7_a_run_in_a_busy_session_is_waited_for_by_its_own_end(stage: Stage) -> None:
    held = stage.hold("a")
    await stage.send("a")
    mine = (await stage.accept("b")).run
    held.gate.set()

    await stage.dispatcher.wait(mine.id)

    assert stage.journal.runs[mine.id].outcome == "completed"


@on_stage
async def test_report_E8_a_late_cleanup_leaves_the_next_runs_cancel_alone(stage: Stage) -> None:
    stuck = Stuck()
    stage.script(a=stuck)
    stage.hold("b")
    await stage.send("a")
    stage.dispatcher.release("s")
    await stage.send("b")
    stuck.gate.set()
    await stage.quiet()

    assert stage.dispatcher.status("s").active == 1
    await stage.dispatcher.cancel("s")
    await stage.quiet()
    assert stage.journal.outcomes() == [("a", "cancelled"), ("b", "cancelled")]


@on_stage
async def test_report_E15_a_stop_while_the_worker_is_blocked_does_not_lock_the_session(stage: Stage) -> None:
    stuck = Stuck()
    stage.script(a=stuck)
    await stage.send("a")
    await stage.dispatcher.cancel("s")
    await anyio.sleep(WATCHDOG_S)
    await stage.send("b")

    assert stage.journal.outcomes() == [("a", "cancelled"), ("b", "completed")]
    stuck.gate.set()


@on_stage
async def test_report_E16_an_old_worker_that_returns_late_writes_nothing(stage: Stage) -> None:
    stuck = Stuck()
    stage.script(a=stuck)
    await stage.send("a")
    stage.dispatcher.release("s")
    await stage.send("b")
    before = stage.journal.history()
    stuck.gate.set()
    await stage.quiet()

    assert stage.journal.history() == before
    assert [type(error) for error in stuck.late] == [FencedError]


@on_stage
async def test_report_S1_an_abort_ends_what_was_queued_visibly_and_gives_it_back(stage: Stage) -> None:
    stage.hold("a")
    await stage.send("a", "b")
    hit = await stage.dispatcher.cancel("s")
    await stage.quiet()

    assert [run.prompt.text for run in hit.dropped] == ["b"]
    assert sorted(stage.journal.outcomes()) == [("a", "cancelled"), ("b", "cancelled")]


@on_stage
async def test_report_S2_an_abort_stops_the_whole_train(stage: Stage) -> None:
    stage.hold("a")
    await stage.send("a", "b", "c")
    await stage.dispatcher.cancel("s")
    await stage.quiet()

    assert stage.turns.begun == ["a"]


@on_stage
async def test_report_S3_a_stopped_command_does_not_stall_what_waits(stage: Stage) -> None:
    stage.hold("a")
    await stage.send("a", "b")
    await stage.dispatcher.cancel("s", "current")
    await stage.quiet()

    assert stage.turns.begun == ["a", "b"]


@on_stage
async def test_report_S4_a_prompt_sent_again_is_stored_and_run_once(stage: Stage) -> None:
    async with anyio.create_task_group() as tasks:
        for _ in range(3):
            tasks.start_soon(lambda: stage.accept("a", key="msg_1"))
    await stage.quiet()

    assert stage.journal.history() == [("user", "a"), ("assistant", "answer to a")]


@on_stage
async def test_report_S5_plugin_and_page_prompt_one_session_and_each_gets_its_answer(stage: Stage) -> None:
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(stage.accept, "plugin")
        tasks.start_soon(stage.accept, "page")
    await stage.quiet()

    assert stage.turns.most == 1
    assert stage.journal.history() == [
        ("user", "plugin"),
        ("assistant", "answer to plugin"),
        ("user", "page"),
        ("assistant", "answer to page"),
    ]


@on_stage
async def test_report_S6_a_prompt_that_lands_as_the_loop_ends_is_run(stage: Stage) -> None:
    """One is sent after every number of steps that a run takes to its end and beyond."""
    for steps in range(60):
        await stage.accept("a")
        for _ in range(steps):
            await anyio.lowlevel.checkpoint()
        await stage.accept("b")
        await stage.quiet()

    assert stage.journal.outcomes() == [("a", "completed"), ("b", "completed")] * 60


@on_stage
async def test_report_S8_a_double_enter_is_one_run(stage: Stage) -> None:
    first = await stage.accept("a", key="k")
    second = await stage.accept("a", key="k")
    await stage.quiet()

    assert first.run.id == second.run.id
    assert stage.turns.begun == ["a"]


@on_stage
async def test_report_S10_a_session_with_nothing_running_is_not_busy(stage: Stage) -> None:
    stage.script(a=fails)
    await stage.send("a")
    assert stage.dispatcher.status("s") == LaneStatus()

    stuck = Stuck()
    stage.script(b=stuck)
    await stage.send("b")
    assert stage.dispatcher.release("s")
    await stage.quiet()
    assert stage.dispatcher.status("s") == LaneStatus()
    stuck.gate.set()


@on_stage
async def test_report_S11_a_stuck_question_does_not_refuse_a_deletion(stage: Stage) -> None:
    stage.hold("question")
    await stage.send("question")

    async with stage.dispatcher.isolation.emptied("s"):
        assert stage.journal.outcomes() == [("question", "cancelled")]


@on_stage
async def test_report_S17_a_run_does_not_depend_on_who_asked_or_on_other_sessions(stage: Stage) -> None:
    stage.journal.sessions.add("t")
    held = stage.hold("a")
    run = (await stage.accept("a")).run
    with anyio.move_on_after(1):
        await stage.dispatcher.wait(run.id)
    await stage.send("b", session_id="t")
    held.gate.set()
    await stage.quiet()

    assert stage.journal.outcomes("s") == [("a", "completed")]


@on_stage
async def test_report_S19_the_next_run_waits_for_the_cancelled_ones_last_write(stage: Stage) -> None:
    closing = anyio.Event()

    async def slow_to_close(journal: RecordingJournal, run: Run, _steered: Steered) -> None:
        try:
            await anyio.sleep_forever()
        finally:
            with anyio.CancelScope(shield=True):
                await closing.wait()
                await journal.write(run, "as far as it went")
                await journal.finish(run, "cancelled")

    stage.script(a=slow_to_close)
    await stage.send("a")
    await stage.dispatcher.cancel("s")
    await stage.send("b")
    assert stage.turns.begun == ["a"]
    closing.set()
    await stage.quiet()

    assert stage.journal.history() == [
        ("user", "a"),
        ("assistant", "as far as it went"),
        ("user", "b"),
        ("assistant", "answer to b"),
    ]


@on_stage
async def test_report_S24_a_stop_is_possible_whenever_it_is_busy_and_corrections_can_steer(
    stage: Stage,
) -> None:
    steps = Steps([anyio.Event(), anyio.Event()])
    stage.script(a=steps)
    await stage.send("a", "b")
    await stage.accept("use tabs", delivery="steer")
    steps.gates[0].set()
    await stage.quiet()

    assert steps.joined == ["use tabs"]
    assert (await stage.dispatcher.cancel("s")).is_active


@on_stage
async def test_report_S28_what_is_queued_is_neither_discarded_nor_left_lying(stage: Stage) -> None:
    held = stage.hold("a")
    await stage.send("a", "b")
    held.gate.set()
    await stage.quiet()
    assert stage.turns.begun == ["a", "b"]

    stage.hold("c")
    await stage.send("c", "d")
    assert [run.prompt.text for run in (await stage.dispatcher.cancel("s")).dropped] == ["d"]
