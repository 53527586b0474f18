"""The ledger under any order of turns, commits, failures, owners and restarts."""

from typing import Final

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from fallback_plugin.agent.memory.segments import SessionMemory

OWNERS: Final = ("A", "B", None)


class SegmentsMachine(RuleBasedStateMachine):
    """Each turn reaches the owner it was marked for, at least once and in that owner's order."""

    def __init__(self) -> None:
        super().__init__()
        self.memory = SessionMemory()
        self.owner_of: dict[int, str | None] = {}
        self.kept: dict[int, str] = {}
        self.under_way: tuple[int, int] | None = None
        self.names: dict[str, tuple[int, int]] = {}

    @rule(owner=st.sampled_from(OWNERS))
    def turn_completes(self, owner: str | None) -> None:
        self.memory = self.memory.marked(owner)
        self.owner_of[self.memory.generation] = owner

    @precondition(lambda self: self.under_way is None)
    @rule(given_owner=st.sampled_from(OWNERS), gone=st.sets(st.sampled_from(("A", "B"))))
    def commit_begins(self, given_owner: str | None, gone: set[str]) -> None:
        """Begin a commit while some owners cannot be reached: the others do not wait for them."""
        before = self.memory
        self.memory = self.memory.begun("s", given_owner, gone)
        first = self.memory.next_segment(given_owner, gone)
        if first is None:
            assert self.memory == before
            reachable = {"A", "B", given_owner} - gone - {None}
            assert not {segment.owner_key or given_owner for segment in before.segments} & reachable
            return
        assert first.state == "in_flight"
        assert first.owner_key not in gone
        assert first.commit_key is not None
        self.under_way = (first.start, first.end)
        assert self.names.setdefault(first.commit_key, self.under_way) == self.under_way
        for turn in range(first.start, first.end + 1):
            assert self.owner_of[turn] in (first.owner_key, None)
            self.owner_of[turn] = first.owner_key

    @precondition(lambda self: self.under_way is not None)
    @rule()
    def it_succeeds(self) -> None:
        assert self.under_way is not None
        start, end = self.under_way
        for turn in range(start, end + 1):
            owner = self.owner_of[turn]
            assert owner is not None
            self.kept[turn] = owner
        assert not [
            turn
            for turn, owner in self.owner_of.items()
            if turn < start and turn not in self.kept and owner == self.kept[start]
        ], "an earlier turn of this owner is left"
        self.memory, self.under_way = self.memory.succeeded(start, end), None

    @precondition(lambda self: self.under_way is not None)
    @rule(now=st.floats(min_value=0, max_value=1e9))
    def it_fails(self, now: float) -> None:
        assert self.under_way is not None
        start, _ = self.under_way
        self.memory, self.under_way = self.memory.failed(start, "no", now), None
        (failed,) = (segment for segment in self.memory.segments if segment.start == start)
        assert failed.next_try is not None
        assert failed.next_try > now
        assert failed.state == "failed" or (self.memory.due_at() or 0) <= failed.next_try

    @precondition(lambda self: self.under_way is not None)
    @rule()
    def the_host_restarts(self) -> None:
        self.memory, self.under_way = self.memory.recovered(), None
        assert self.memory.recovered() == self.memory

    @invariant()
    def segments_cover_what_is_not_kept(self) -> None:
        covered = [turn for segment in self.memory.segments for turn in range(segment.start, segment.end + 1)]
        assert covered == [turn for turn in range(1, self.memory.generation + 1) if turn not in self.kept]
        assert set(range(1, self.memory.committed + 1)) <= set(self.kept)

    @invariant()
    def a_commit_under_way_keeps_its_end(self) -> None:
        if self.under_way is not None:
            (found,) = (segment for segment in self.memory.segments if segment.state == "in_flight")
            assert (found.start, found.end) == self.under_way


TestSegments = SegmentsMachine.TestCase
TestSegments.settings = settings(stateful_step_count=40, deadline=None)
