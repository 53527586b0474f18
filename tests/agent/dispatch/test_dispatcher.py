"""Prompts through the dispatcher: accepted, run, cancelled, each with one end."""

from contextlib import suppress
from dataclasses import replace

import anyio
import pytest

from fallback_plugin.agent.dispatch import Cancelled, LaneStatus
from fallback_plugin.agent.records import Run, UserPrompt
from fallback_plugin.errors import AgentError, FencedError, StoreError
from fallback_plugin.fallback.classify import classify
from fallback_plugin.model_ref import ModelRef
from fallback_plugin.wire.error import read_error
from tests.agent.dispatch.scripted_turns import Steps, Stuck, breaks, fails, forgets_to_end
from tests.agent.dispatch.stage import WATCHDOG_S, Stage, on_stage, prompt


@on_stage
async def test_a_prompt_is_answered_and_the_session_is_busy_meanwhile(stage: Stage) -> None:
    await stage.send("hello")

    assert stage.journal.history() == [("user", "hello"), ("assistant", "answer to hello")]
    assert stage.journal.outcomes() == [("hello", "completed")]
    assert [(event.kind, event.word) for event in stage.journal.events] == [
        ("accepted", None),
        ("status", "busy"),
        ("active", None),
        ("ended", "completed"),
        ("status", "idle"),
    ]


@on_stage
async def test_accept_returns_before_the_run_ends(stage: Stage) -> None:
    held = stage.hold("a")

    accepted = await stage.accept("a")

    assert accepted.is_new
    assert stage.dispatcher.status("s").is_busy
    held.gate.set()
    await stage.dispatcher.wait(accepted.run.id)
    assert stage.journal.outcomes() == [("a", "completed")]


@on_stage
async def test_an_unknown_session_is_an_error_and_leaves_nothing(stage: Stage) -> None:
    with pytest.raises(AgentError) as refused:
        await stage.accept("a", "nowhere")

    assert refused.value.status == 404
    assert stage.journal.events == []


@on_stage
async def test_a_full_disk_at_accept_reaches_the_caller_and_frees_the_lane(stage: Stage) -> None:
    stage.journal.refuse = {"accept"}

    with pytest.raises(StoreError):
        await stage.accept("a")

    assert stage.dispatcher.status("s") == LaneStatus()


@on_stage
async def test_the_same_key_again_is_the_same_run(stage: Stage) -> None:
    held = stage.hold("a")
    first = await stage.accept("a", key="k")
    again = await stage.accept("a", key="k")
    held.gate.set()
    await stage.quiet()

    assert (again.run.id, again.is_new) == (first.run.id, False)
    assert stage.turns.begun == ["a"]
    assert stage.journal.statuses() == ["busy", "idle"]


@on_stage
async def test_a5_a_cancel_between_acceptance_and_decision_has_one_terminal(stage: Stage) -> None:
    gate = anyio.Event()
    stage.journal.pause = gate.wait
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(stage.accept, "a")
        await stage.quiet()
        hit = await stage.dispatcher.cancel("s")
        gate.set()
    await stage.quiet()

    assert hit.accepted == 1
    assert stage.journal.outcomes() == [("a", "cancelled")]
    assert stage.journal.history() == [("user", "a"), ("assistant", "[cancelled]")]
    assert stage.journal.statuses() == ["busy", "idle"]
    assert stage.turns.begun == []


@on_stage
async def test_a_cancel_reaches_the_active_run_the_accepted_and_the_queue(stage: Stage) -> None:
    stage.hold("a")
    await stage.send("a", "b", "c")
    gate = anyio.Event()
    stage.journal.pause = gate.wait
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(stage.accept, "d")
        await stage.quiet()
        tasks.start_soon(stage.dispatcher.cancel, "s")
        await stage.quiet()
        gate.set()
    await stage.quiet()

    assert sorted(stage.journal.outcomes()) == [(text, "cancelled") for text in "abcd"]
    assert stage.turns.begun == ["a"]


@on_stage
async def test_a_prompt_after_the_cancel_is_not_reached_by_it(stage: Stage) -> None:
    stage.hold("a")
    await stage.send("a")
    await stage.dispatcher.cancel("s")
    await stage.send("b")

    assert stage.journal.outcomes() == [("a", "cancelled"), ("b", "completed")]


@on_stage
async def test_a_cancel_of_the_current_run_lets_the_next_one_begin(stage: Stage) -> None:
    stage.hold("a")
    await stage.send("a", "b")

    hit = await stage.dispatcher.cancel("s", "current")
    await stage.quiet()

    assert hit.dropped == ()
    assert stage.journal.outcomes() == [("a", "cancelled"), ("b", "completed")]


@on_stage
async def test_a_run_begins_with_the_model_that_was_chosen_for_it(stage: Stage) -> None:
    other = ModelRef("spare", "a")

    async def choose(run: Run) -> Run:
        return replace(run, prompt=replace(run.prompt, model=other))

    stage.turns.prepare_with = choose
    await stage.send("a")

    assert [run.prompt.model for run in stage.journal.runs.values()] == [other]


@on_stage
async def test_a_choice_that_fails_leaves_the_prompt_as_it_is(stage: Stage) -> None:
    async def breaks_down(run: Run) -> Run:
        raise LookupError(run.id)

    stage.turns.prepare_with = breaks_down
    await stage.send("a")

    assert stage.journal.outcomes() == [("a", "completed")]


@on_stage
async def test_a_cancel_while_the_model_is_chosen_ends_the_run_before_its_turn(stage: Stage) -> None:
    gate = anyio.Event()

    async def choose_late(run: Run) -> Run:
        await gate.wait()
        return run

    stage.turns.prepare_with = choose_late
    accepted = await stage.accept("a")
    await stage.quiet()

    await stage.dispatcher.cancel("s")
    stops = list(stage.journal.stops)
    gate.set()
    await stage.quiet()

    assert stops == [accepted.run.id]
    assert stage.turns.begun == []
    assert stage.journal.outcomes() == [("a", "cancelled")]


@on_stage
async def test_a_cancel_while_a_run_is_being_activated_ends_it_before_its_turn(stage: Stage) -> None:
    gate = anyio.Event()
    await stage.accept("a")
    stage.journal.pause = gate.wait
    await stage.quiet()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(stage.dispatcher.cancel, "s")
        await stage.quiet()
        gate.set()
    await stage.quiet()

    assert stage.turns.begun == []
    assert stage.journal.history() == [("user", "a"), ("assistant", "[cancelled]")]


@on_stage
async def test_one_active_run_a_session_and_sessions_side_by_side(stage: Stage) -> None:
    stage.journal.sessions.add("t")
    one, other = stage.hold("a"), stage.hold("b")
    await stage.send("a", "queued")
    await stage.send("b", session_id="t")

    assert stage.turns.begun == ["a", "b"]
    assert stage.dispatcher.status("s") == LaneStatus(1, 0, 1, is_busy=True)
    assert set(stage.dispatcher.busy_sessions()) == {"s", "t"}
    assert [run.prompt.text for run in stage.dispatcher.queued("s")] == ["queued"]
    one.gate.set()
    other.gate.set()
    await stage.quiet()
    assert stage.turns.begun == ["a", "b", "queued"]


@on_stage
async def test_eight_at_once_run_one_after_the_other(stage: Stage) -> None:
    async with anyio.create_task_group() as tasks:
        for number in range(8):
            tasks.start_soon(stage.accept, str(number))
    await stage.quiet()

    assert stage.turns.most == 1
    assert stage.journal.outcomes() == [(str(number), "completed") for number in range(8)]


@pytest.mark.parametrize("behaviour", [breaks, forgets_to_end, fails])
def test_w3_the_queue_goes_on_however_a_turn_ends(behaviour: object) -> None:
    async def play(stage: Stage) -> None:
        stage.turns.behaviours["a"] = behaviour  # type: ignore[assignment]
        async with anyio.create_task_group() as tasks:
            for text in "abc":
                tasks.start_soon(stage.accept, text)
        await stage.quiet()
        assert stage.journal.outcomes() == [("a", "failed"), ("b", "completed"), ("c", "completed")]
        assert stage.journal.statuses() == ["busy", "idle"]

    on_stage(play)()


@on_stage
async def test_a_mistake_of_ours_is_not_shown_to_the_person_but_said(stage: Stage) -> None:
    stage.script(a=breaks)
    accepted = await stage.accept("a")
    await stage.quiet()

    assert stage.journal.runs[accepted.run.id].error == {
        "name": "UnknownError",
        "data": {"message": "The turn broke off: the log has the reason."},
    }


@on_stage
async def test_a_run_that_cannot_begin_fails_and_the_next_one_begins(stage: Stage) -> None:
    stage.hold("a").gate.set()
    stage.journal.refuse = {"activate"}
    await stage.send("a")
    stage.journal.refuse = set()
    await stage.send("b")

    assert stage.journal.outcomes() == [("a", "failed"), ("b", "completed")]
    assert stage.journal.history()[:2] == [("user", "a"), ("assistant", "[failed]")]


@on_stage
async def test_a_run_that_can_neither_begin_nor_end_is_kept_and_who_waits_is_told(stage: Stage) -> None:
    stage.journal.refuse = {"activate", "end"}
    accepted = await stage.accept("a")

    with pytest.raises(StoreError):
        await stage.dispatcher.wait(accepted.run.id)

    assert stage.journal.states() == {"a": "accepted"}


@on_stage
async def test_who_waits_is_told_that_an_end_cannot_be_written(stage: Stage) -> None:
    stage.script(a=forgets_to_end)
    stage.journal.refuse = {"end"}
    accepted = await stage.accept("a")

    with pytest.raises(StoreError):
        await stage.dispatcher.wait(accepted.run.id)


@on_stage
async def test_a_cancel_that_cannot_be_written_reaches_who_cancelled(stage: Stage) -> None:
    held = stage.hold("a")
    await stage.send("a", "b")
    stage.journal.refuse = {"cancel"}

    with pytest.raises(StoreError):
        await stage.dispatcher.cancel("s")

    held.gate.set()


@on_stage
async def test_what_steers_joins_the_active_turn_between_two_steps(stage: Stage) -> None:
    steps = Steps([anyio.Event(), anyio.Event()])
    stage.script(a=steps)
    await stage.send("a", "plain")
    await stage.accept("left", delivery="steer")
    steps.gates[0].set()
    await stage.quiet()

    assert steps.joined == ["left"]
    assert stage.journal.outcomes() == [("left", "folded")]
    steps.gates[1].set()
    await stage.quiet()
    assert stage.journal.outcomes() == [("left", "folded"), ("a", "completed"), ("plain", "completed")]


@on_stage
async def test_who_waits_for_what_steered_waits_for_the_answer(stage: Stage) -> None:
    steps = Steps([anyio.Event(), anyio.Event()])
    stage.script(a=steps)
    await stage.send("a")
    steered = await stage.accept("left", delivery="steer")
    steps.gates[0].set()
    await stage.quiet()
    waited = anyio.Event()

    async def wait() -> None:
        await stage.dispatcher.wait(steered.run.id)
        waited.set()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(wait)
        await stage.quiet()
        assert not waited.is_set()
        steps.gates[1].set()


@on_stage
async def test_steering_that_cannot_be_written_waits_its_turn(stage: Stage) -> None:
    steps = Steps([anyio.Event()])
    stage.script(a=steps)
    await stage.send("a")
    await stage.accept("left", delivery="steer")
    stage.journal.refuse = {"fold"}
    steps.gates[0].set()
    await stage.quiet()

    assert stage.journal.outcomes() == [("a", "failed"), ("left", "completed")]


@on_stage
async def test_a_run_that_does_not_unwind_is_fenced_and_the_lane_goes_on(stage: Stage) -> None:
    stuck = Stuck()
    stage.script(a=stuck)
    await stage.send("a")
    await stage.dispatcher.cancel("s")
    await stage.send("b")
    assert stage.journal.outcomes() == []

    await anyio.sleep(WATCHDOG_S)
    await stage.quiet()

    assert stage.journal.outcomes() == [("a", "cancelled"), ("b", "completed")]
    stuck.gate.set()
    await stage.quiet()
    assert [type(error) for error in stuck.late] == [FencedError]
    assert ("assistant", "late") not in stage.journal.history()


@on_stage
async def test_a_run_that_nobody_cancelled_may_take_its_time(stage: Stage) -> None:
    held = stage.hold("a")
    await stage.send("a")

    await anyio.sleep(100 * WATCHDOG_S)

    assert stage.journal.outcomes() == []
    held.gate.set()


@on_stage
async def test_a_late_worker_takes_no_steering_from_its_successor(stage: Stage) -> None:
    steps = Steps([anyio.Event()])

    async def stuck(*arguments: object) -> None:
        with anyio.CancelScope(shield=True):
            await steps(*arguments)  # type: ignore[arg-type]

    held = stage.hold("b")
    stage.script(a=stuck)
    await stage.send("a")
    stage.dispatcher.release("s")
    await stage.send("b")
    await stage.accept("left", delivery="steer")
    await stage.accept("plain")
    steps.gates[0].set()
    await stage.quiet()

    assert steps.joined == []
    assert [run.prompt.text for run in stage.dispatcher.queued("s")] == ["left", "plain"]
    held.gate.set()


@on_stage
async def test_a_release_does_not_wait_for_the_watchdog(stage: Stage) -> None:
    stuck = Stuck()
    stage.script(a=stuck)
    await stage.send("a")

    assert stage.dispatcher.release("s")
    await stage.quiet()

    assert stage.journal.outcomes() == [("a", "cancelled")]
    assert not stage.dispatcher.release("s")
    stuck.gate.set()


@on_stage
async def test_a_held_run_is_sent_once(stage: Stage) -> None:
    held = stage.journal.hold("before")
    sent = await stage.dispatcher.send("s", held.id)

    with pytest.raises(AgentError) as refused:
        await stage.dispatcher.send("s", held.id)

    assert refused.value.status == 409
    await stage.dispatcher.wait(sent.id)
    assert stage.journal.outcomes() == [("before", "completed")]


@on_stage
async def test_a_held_run_that_is_sent_waits_its_turn_and_can_be_cancelled(stage: Stage) -> None:
    stage.hold("a")
    await stage.send("a")
    await stage.dispatcher.send("s", stage.journal.hold("before").id)
    await stage.quiet()

    hit = await stage.dispatcher.cancel("s")

    assert [run.prompt.text for run in hit.dropped] == ["before"]


@on_stage
async def test_a_run_that_waits_is_discarded_alone_and_nobody_waits_for_it_any_more(stage: Stage) -> None:
    stage.hold("a")
    await stage.send("a", "b", "c")
    waiting, _ = stage.dispatcher.queued("s")

    await stage.dispatcher.discard("s", waiting.id)
    await stage.dispatcher.wait(waiting.id)

    assert [run.prompt.text for run in stage.dispatcher.queued("s")] == ["c"]
    await stage.dispatcher.cancel("s")
    await stage.quiet()
    assert sorted(stage.journal.outcomes()) == [("a", "cancelled"), ("b", "discarded"), ("c", "cancelled")]
    assert ("user", "b") not in stage.journal.history()


@on_stage
async def test_a_run_that_has_begun_is_not_discarded(stage: Stage) -> None:
    stage.hold("a")
    active = (await stage.accept("a")).run
    await stage.quiet()

    with pytest.raises(AgentError) as refused:
        await stage.dispatcher.discard("s", active.id)

    assert refused.value.status == 409
    assert stage.dispatcher.status("s").active == 1
    await stage.dispatcher.cancel("s")


@on_stage
async def test_a_discarded_run_whose_end_cannot_be_written_leaves_the_session_in_order(stage: Stage) -> None:
    stage.hold("a")
    await stage.send("a", "b")
    (waiting,) = stage.dispatcher.queued("s")
    stage.journal.refuse.add("discard")

    with pytest.raises(StoreError, match="disk is full"):
        await stage.dispatcher.discard("s", waiting.id)
    await stage.dispatcher.cancel("s")
    await stage.quiet()

    assert not stage.dispatcher.status("s").is_busy


@on_stage
async def test_a_held_run_is_discarded_once(stage: Stage) -> None:
    held = stage.journal.hold("before")
    await stage.dispatcher.discard("s", held.id)

    with pytest.raises(AgentError):
        await stage.dispatcher.discard("s", held.id)

    assert stage.journal.outcomes() == [("before", "discarded")]
    assert stage.journal.history() == []


@on_stage
async def test_a_persons_stop_is_on_stable_storage_before_it_is_answered(stage: Stage) -> None:
    stuck = Stuck()
    stage.script(a=stuck)
    await stage.send("a")

    hit = await stage.dispatcher.cancel("s")

    assert hit.active is not None
    assert stage.journal.stops == [hit.active.id]
    stuck.gate.set()


@on_stage
async def test_a_cancel_of_a_parents_run_reaches_its_children(stage: Stage) -> None:
    stage.journal.sessions.add("child")
    stage.hold("a")
    stage.hold("task")
    parent = (await stage.accept("a")).run
    await stage.quiet()
    await stage.accept("task", "child", parent=parent)
    await stage.accept("more", "child")
    await stage.quiet()

    await stage.dispatcher.cancel("s")
    await stage.quiet()

    assert sorted(stage.journal.outcomes()) == [
        ("a", "cancelled"),
        ("more", "cancelled"),
        ("task", "cancelled"),
    ]


@on_stage
async def test_a_child_does_not_outlive_its_parents_run(stage: Stage) -> None:
    stage.journal.sessions.add("child")
    held = stage.hold("a")
    stage.hold("task")
    parent = (await stage.accept("a")).run
    await stage.quiet()
    await stage.accept("task", "child", parent=parent)
    await stage.quiet()
    held.gate.set()
    await stage.quiet()

    assert stage.journal.outcomes() == [("a", "completed"), ("task", "cancelled")]
    with pytest.raises(FencedError):
        await stage.accept("another", "child", parent=parent)


@pytest.mark.timeout(120)
@on_stage
async def test_lanes_vanish_with_what_worked_on_them(stage: Stage) -> None:
    names = [f"s{number}" for number in range(10_000)]
    stage.journal.sessions.update(names)
    for name in names:
        accepted = await stage.dispatcher.accept(name, UserPrompt(parts=()))
        await stage.dispatcher.wait(accepted.run.id)
    await stage.quiet()

    assert len(stage.journal.outcomes()) == len(names)
    stage.assert_nothing_left()


@on_stage
async def test_who_is_cancelled_while_a_prompt_is_accepted_stops_nothing(stage: Stage) -> None:
    gate = anyio.Event()
    stage.journal.pause = gate.wait
    with anyio.move_on_after(1):
        await stage.accept("a")
    gate.set()
    await stage.quiet()

    assert stage.journal.outcomes() == [("a", "completed")]


def test_before_it_runs_nothing_is_accepted() -> None:
    stage = Stage()

    async def early() -> None:
        await stage.dispatcher.accept("s", prompt("a"))

    with pytest.raises(AgentError, match="does not run"):
        anyio.run(early)


@on_stage
async def test_H6_prompts_that_a_full_disk_stopped_run_in_order_once_there_is_room(stage: Stage) -> None:
    held = stage.hold("a")
    await stage.send("a", "b", "c", "d")
    stage.journal.is_full = True
    held.gate.set()
    await anyio.sleep(100)
    assert stage.dispatcher.status("s") == LaneStatus(1, 0, 3, is_busy=True)
    assert stage.journal.outcomes() == []
    stage.journal.is_full = False
    await stage.send("e")
    await anyio.sleep(100)

    assert stage.journal.outcomes() == [("a", "failed"), *((text, "completed") for text in "bcde")]
    assert stage.journal.statuses() == ["busy", "idle"]


@on_stage
async def test_H6_who_waits_on_a_full_disk_is_told_and_the_run_goes_on_later(stage: Stage) -> None:
    held = stage.hold("a")
    await stage.send("a")
    waiting = (await stage.accept("b")).run
    told: list[StoreError] = []

    async def wait() -> None:
        try:
            await stage.dispatcher.wait(waiting.id)
        except StoreError as error:
            told.append(error)

    stage.journal.full_for = {"activate"}
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(wait)
        await stage.quiet()
        held.gate.set()
    with pytest.raises(StoreError, match="goes on by itself"):
        await stage.dispatcher.wait(waiting.id)
    stage.journal.full_for = set()
    await anyio.sleep(5)

    assert [error.status for error in told] == [507]
    assert stage.journal.outcomes() == [("a", "completed"), ("b", "completed")]


@on_stage
async def test_H6_a_cancel_on_a_full_disk_counts_and_is_written_later(stage: Stage) -> None:
    stage.hold("a")
    await stage.send("a", "b", "c")
    stage.journal.is_full = True
    with pytest.raises(StoreError):
        await stage.dispatcher.cancel("s")
    await anyio.sleep(20)
    stage.journal.is_full = False
    await stage.send("d")
    await anyio.sleep(20)

    assert dict(stage.journal.outcomes()) == {
        "a": "cancelled",
        "b": "cancelled",
        "c": "cancelled",
        "d": "completed",
    }
    assert stage.turns.begun == ["a", "d"]
    words = [text for role, text in stage.journal.history() if role == "user"]
    assert words == ["a", "b", "c", "d"]


@on_stage
async def test_H6_a_discard_on_a_full_disk_counts_and_is_written_later(stage: Stage) -> None:
    held = stage.hold("a")
    await stage.send("a", "b")
    (waiting,) = stage.dispatcher.queued("s")
    stage.journal.is_full = True
    with pytest.raises(StoreError):
        await stage.dispatcher.discard("s", waiting.id)
    stage.journal.is_full = False
    held.gate.set()
    await anyio.sleep(5)

    assert stage.journal.outcomes() == [("b", "discarded"), ("a", "completed")]


@on_stage
async def test_H6_a_full_disk_does_not_keep_a_deletion_or_a_stop_of_the_host_waiting(stage: Stage) -> None:
    held = stage.hold("a")
    await stage.send("a", "b")
    stage.journal.is_full = True
    held.gate.set()
    await stage.quiet()

    with anyio.fail_after(1), pytest.raises(StoreError, match="goes on by itself"):
        async with stage.dispatcher.isolation.emptied("s"):
            pass
    with anyio.fail_after(1):
        assert await stage.dispatcher.stop()

    assert stage.journal.states() == {"a": "active", "b": "queued"}


@on_stage
async def test_H6_a_session_that_waits_is_told_of_once_and_others_go_on(stage: Stage) -> None:
    stage.journal.sessions = {"s", "t"}
    stage.journal.full_for = {"activate"}
    await stage.send("a")
    await anyio.sleep(10)
    stage.journal.full_for = set()
    with anyio.fail_after(0.5):
        await stage.dispatcher.wait((await stage.accept("other", "t")).run.id)
    await anyio.sleep(5)

    assert [session_id for session_id, _ in stage.stalled] == ["s"]
    assert "the disk is full" in str(stage.stalled[0][1])
    assert stage.journal.outcomes() == [("other", "completed"), ("a", "completed")]


@on_stage
async def test_H12_a_cancel_returns_the_words_of_what_was_just_being_accepted(stage: Stage) -> None:
    stage.hold("a")
    await stage.send("a", "queued")
    gate = anyio.Event()
    stage.journal.pause = gate.wait
    hits: list[Cancelled] = []

    async def cancel() -> None:
        hits.append(await stage.dispatcher.cancel("s"))

    async with anyio.create_task_group() as tasks:
        for text in ("b", "c"):
            tasks.start_soon(stage.accept, text)
        await stage.quiet()
        tasks.start_soon(cancel)
        tasks.start_soon(cancel)
        await stage.quiet()
        gate.set()

    words = [sorted(run.prompt.text for run in hit.dropped) for hit in hits]
    assert sorted(words) == [["b", "c"], ["b", "c", "queued"]]
    assert [hit.accepted for hit in hits] == [2, 2]


@on_stage
async def test_H12_a_cancel_does_not_return_what_could_not_be_accepted(stage: Stage) -> None:
    gate = anyio.Event()
    stage.journal.pause = gate.wait
    stage.journal.refuse = {"accept"}
    hits: list[Cancelled] = []

    async def accept() -> None:
        with suppress(StoreError):
            await stage.accept("a")

    async def cancel() -> None:
        hits.append(await stage.dispatcher.cancel("s"))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(accept)
        await stage.quiet()
        tasks.start_soon(cancel)
        await stage.quiet()
        gate.set()

    assert [(hit.accepted, hit.dropped) for hit in hits] == [(1, ())]


@pytest.mark.parametrize("reason", ["a full disk", "a mistake"])
def test_H6_what_the_host_could_not_do_is_no_failure_of_the_model(reason: str) -> None:
    @on_stage
    async def play(stage: Stage) -> None:
        stage.script(a=breaks)
        if reason == "a full disk":
            stage.script(a=forgets_to_end)
            stage.journal.refuse = {"activate"}
        accepted = await stage.accept("a")
        await stage.quiet()

        error = read_error(stage.journal.runs[accepted.run.id].error)
        assert error is not None
        assert classify(error, 0.0).kind == "host"

    play()
