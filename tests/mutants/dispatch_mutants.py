"""Small wrongs done to the dispatcher; the first seven are those of the contract (A.9)."""

from typing import Final

from tests.mutants.mutants import Mutant

LANE: Final = "agent/dispatch/lane.py"
RUNNER: Final = "agent/dispatch/lane_runner.py"
TEST_LANE: Final = "agent/dispatch/test_lane.py::"
DISPATCHER: Final = "agent/dispatch/test_dispatcher.py::"
ISOLATION: Final = "agent/dispatch/test_isolation.py::"
REPORTS: Final = "agent/dispatch/test_reports.py::"
STOPPING: Final = "agent/dispatch/test_stopping.py::"
ANYTHING: Final = "agent/dispatch/test_invariants.py::test_schedules_by_their_seeds"

DISPATCH_MUTANTS: Final = (
    Mutant(
        wrong="a covered run is not cancelled on entry",
        file=LANE,
        find="        covered = reservation.is_covered\n",
        replace="        covered = False\n",
        killed_by=ANYTHING,
    ),
    Mutant(
        wrong="a cancel ignores what is accepted",
        file=LANE,
        find='        if self._reservations and (mode == "all"',
        replace='        if False and (mode == "all"',
        killed_by=ANYTHING,
    ),
    Mutant(
        wrong="the mark is one too high",
        file=LANE,
        find='self._sequence.last if mode == "all"',
        replace='self._sequence.last + 1 if mode == "all"',
        killed_by=ANYTHING,
    ),
    Mutant(
        wrong="a cancel leaves the queue",
        file=LANE,
        find='if mode != "current" else ()',
        replace='if mode == "queue" else ()',
        killed_by=ANYTHING,
    ),
    Mutant(
        wrong="the queue is not drained after an error",
        file=RUNNER,
        find="        await self._end(lane, run, outcome, error)\n",
        replace=(
            "        await self._end(lane, run, outcome, error)\n"
            "        if error is not None:\n"
            "            lane.queue.clear()\n"
        ),
        killed_by=ANYTHING,
    ),
    Mutant(
        wrong="an idle cancel sets the mark",
        file=LANE,
        find='        if self._reservations and (mode == "all" or (',
        replace='        if (mode == "all" or (self._reservations and ',
        killed_by=TEST_LANE + "TestCancel::test_a7_an_idle_cancel_changes_nothing",
    ),
    Mutant(
        wrong="something is awaited between looking and deciding",
        file=RUNNER,
        find="            match lane.enter(run, reservation):\n",
        replace=(
            "            active = lane.active\n"
            "            await anyio.sleep(0)\n"
            "            lane.active = active\n"
            "            match lane.enter(run, reservation):\n"
        ),
        killed_by=ANYTHING,
    ),
    Mutant(
        wrong="any entry gives the lane back",
        file=LANE,
        find="        if self.active is not entry:\n            return None, []\n",
        replace="",
        killed_by=TEST_LANE + "TestHandOff::test_only_the_entry_that_has_the_lane_gives_it_back",
    ),
    Mutant(
        wrong="a cancel takes the active entry away before it has unwound",
        file=LANE,
        find="            reached.cancel()\n",
        replace="            reached.cancel()\n            self.active = None\n",
        killed_by=REPORTS + "test_report_S19_the_next_run_waits_for_the_cancelled_ones_last_write",
    ),
    Mutant(
        wrong="the watchdog never bites",
        file="agent/dispatch/execution.py",
        find="            with anyio.move_on_after(self._watchdog_s):\n",
        replace="            with anyio.CancelScope():\n",
        killed_by=DISPATCHER + "test_a_run_that_does_not_unwind_is_fenced_and_the_lane_goes_on",
    ),
    Mutant(
        wrong="a run that its turn does not end has no end",
        file=RUNNER,
        find="            ended = await self._decisions.stored(lane, [run], end)\n",
        replace="            ended = False\n",
        killed_by=DISPATCHER + "test_a_mistake_of_ours_is_not_shown_to_the_person_but_said",
    ),
    Mutant(
        wrong="a late worker takes its successor's steering",
        file=RUNNER,
        find="        if lane.active is not entry or entry.run is None:\n",
        replace="        if entry.run is None:\n",
        killed_by=DISPATCHER + "test_a_late_worker_takes_no_steering_from_its_successor",
    ),
    Mutant(
        wrong="a cancel does not reach what is about to join a turn",
        file=LANE,
        find="                joining.append((waiting.run, self._keep(waiting.sequence)))\n",
        replace="                joining.append((waiting.run, Reservation(self, waiting.sequence)))\n",
        killed_by=TEST_LANE + "TestSteering::test_a_cancel_reaches_what_is_about_to_join",
    ),
    Mutant(
        wrong="steering that could not be written is lost",
        file=RUNNER,
        find="                    await self.enter(run, reservation)\n                raise\n",
        replace="                    reservation.close()\n                raise\n",
        killed_by=DISPATCHER + "test_steering_that_cannot_be_written_waits_its_turn",
    ),
    Mutant(
        wrong="idle is told before the last terminal is written",
        file=LANE,
        find="        return self.active is None and not (self._reservations or self.queue or self.ending)\n",
        replace="        return self.active is None and not (self._reservations or self.queue)\n",
        killed_by=ANYTHING,
    ),
    Mutant(
        wrong="every prompt that waits is taken for steering",
        file=LANE,
        find='if waiting.run.prompt.delivery == "steer"]',
        replace="]",
        killed_by=TEST_LANE + "TestSteering::test_only_what_steers_joins_whatever_waits_before_it",
    ),
    Mutant(
        wrong="a failed accept keeps its place",
        file="agent/dispatch/dispatcher.py",
        find="            finally:\n                reservation.close()\n",
        replace="            finally:\n                pass\n",
        killed_by=DISPATCHER + "test_a_full_disk_at_accept_reaches_the_caller_and_frees_the_lane",
    ),
    Mutant(
        wrong="the tasks of a cancelled host are cancelled",
        file="agent/dispatch/own_tasks.py",
        find="        with anyio.CancelScope(shield=True):\n",
        replace="        with anyio.CancelScope():\n",
        killed_by=STOPPING + "test_a_cancelled_host_lets_its_turns_unwind_in_good_order",
    ),
    Mutant(
        wrong="a stop begins what waits",
        file=RUNNER,
        find="        if lane.is_closed:\n",
        replace="        if False:\n",
        killed_by=STOPPING + "test_a_prompt_being_accepted_is_kept_and_its_caller_learns_its_id",
    ),
    Mutant(
        wrong="a stop of the parent leaves its children",
        file=RUNNER,
        find="                self._decisions.dropped(lane, lane.cancel().dropped)\n",
        replace="                pass\n",
        killed_by=DISPATCHER + "test_a_cancel_of_a_parents_run_reaches_its_children",
    ),
    Mutant(
        wrong="the old id of a session loses its lane",
        file="agent/dispatch/lane_table.py",
        find="        for known in lane.ids:\n",
        replace="        for known in (session_id,):\n",
        killed_by=ISOLATION + "TestRotation::test_b25_a_concurrent_delete_does_not_part_them",
    ),
    Mutant(
        wrong="a prompt slips into a deletion",
        file=LANE,
        find="        if self.deletions:\n",
        replace="        if False:\n",
        killed_by=ISOLATION + "test_a_deletion_cancels_first_and_refuses_prompts",
    ),
    Mutant(
        wrong="an old id leads to a lane of its own",
        file="agent/dispatch/lane_table.py",
        find="        with self.hold(*ids) as lane:\n",
        replace="        with self.hold(session_id) as lane:\n",
        killed_by=ISOLATION + "test_a_stop_under_the_old_id_reaches_what_runs_under_the_new_one",
    ),
    Mutant(
        wrong="a held prompt that is sent takes no turn",
        file="agent/dispatch/dispatcher.py",
        find="self._journal.send(run_id, reservation.sequence), is_new=True)\n",
        replace="self._journal.send(run_id, reservation.sequence), is_new=False)\n",
        killed_by=ANYTHING,
    ),
)
