"""Small wrongs done to the memory ledger, each with the test that must notice."""

from typing import Final

from tests.mutants.mutants import Mutant

SEGMENTS: Final = "agent/memory/segments.py"
LEDGER: Final = "agent/memory/ledger.py"
TEST_LEDGER: Final = "agent/memory/test_ledger.py::"
BOUNDARIES: Final = "agent/memory/test_boundaries.py::"

MEMORY_MUTANTS: Final = (
    Mutant(
        wrong="a commit under way takes newer turns along",
        file=SEGMENTS,
        find="(last.end, last.owner_key, last.commit_key) == (turn - 1, owner_key, None)",
        replace="(last.end, last.owner_key) == (turn - 1, owner_key)",
        killed_by=TEST_LEDGER + "test_d01_a_turn_marked_during_a_commit_stays_to_be_committed",
    ),
    Mutant(
        wrong="the newest owner commits everything",
        file=SEGMENTS,
        find="                owner_key=found.owner_key or owner_key,\n",
        replace="                owner_key=owner_key or found.owner_key,\n",
        killed_by=TEST_LEDGER + "test_d04_a_failed_segment_stays_its_owners_when_another_is_registered",
    ),
    Mutant(
        wrong="the segments of two owners are one",
        file=SEGMENTS,
        find="(last.end, last.owner_key, last.commit_key) == (turn - 1, owner_key, None)",
        replace="(last.end, last.commit_key) == (turn - 1, None)",
        killed_by=TEST_LEDGER + "test_d05_each_owner_gets_its_own_turns_the_older_first",
    ),
    Mutant(
        wrong="a failed commit counts as done",
        file=LEDGER,
        find="                if trouble is None:\n",
        replace="                if True:\n",
        killed_by=TEST_LEDGER + "test_d02_a_failed_commit_is_repeated",
    ),
    Mutant(
        wrong="two attempts run at once",
        file=LEDGER,
        find="        if session_id in self._attempts:\n            return False\n",
        replace="        self._attempts.pop(session_id, None)\n",
        killed_by=TEST_LEDGER + "test_two_boundaries_at_once_are_one_call",
    ),
    Mutant(
        wrong="a segment whose commit failed keeps its name and cannot grow",
        file=SEGMENTS,
        find="                commit_key=None,\n                attempts=attempts,",
        replace="                attempts=attempts,",
        killed_by=TEST_LEDGER + "test_a_failed_commit_and_a_further_turn_are_one_retry",
    ),
    Mutant(
        wrong="a restart forgets the name of an attempt",
        file=SEGMENTS,
        find='replace(segment, state="dirty", next_try=None) if',
        replace='replace(segment, state="dirty", next_try=None, commit_key="other") if',
        killed_by=TEST_LEDGER + "test_what_a_restart_cut_off_comes_again_under_the_same_name",
    ),
    Mutant(
        wrong="a new id does not follow a commit under way",
        file=LEDGER,
        find="            attempt.session_id = new_id\n            self._attempts[new_id] = attempt\n",
        replace="            self._attempts[old_id] = attempt\n",
        killed_by=TEST_LEDGER + "test_a_new_id_during_a_commit_ends_it_under_the_new_one",
    ),
    Mutant(
        wrong="what owes turns is closed",
        file="agent/memory/open_sessions.py",
        find=" or not await self._commit(session_id, found):\n",
        replace=":\n",
        killed_by=BOUNDARIES + "test_what_cannot_be_committed_stays_open",
    ),
    Mutant(
        wrong="a live session is closed",
        file="agent/memory/open_sessions.py",
        find="        if found is None or self._is_live(session_id) or",
        replace="        if found is None or",
        killed_by=BOUNDARIES + "test_a_live_session_is_not_closed",
    ),
    Mutant(
        wrong="a drain has no deadline",
        file="agent/memory/worker.py",
        find="        with anyio.move_on_after(deadline_s):\n",
        replace="        with anyio.move_on_after(deadline_s * 10):\n",
        killed_by=BOUNDARIES + "test_a_drain_ends_at_its_deadline_and_names_what_is_left",
    ),
)
