"""The ledger under any order of turns, commits, failures, owners and restarts."""

from typing import Final

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from fallback_plugin.agent.memory.segments import SessionMemory

OWNERS: Final = ("A", "B", None)


class SegmentsMachine(RuleBasedStateMachine):
    """Each turn reaches the owner it was marked for, at least once, in order, and none is forgotten."""

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
    @rule(given_owner=st.sampled_from(OWNERS))
    def commit_begins(self, given_owner: str | None) -> None:
        self.memory = self.memory.begun("s", given_owner)
        if not self.memory.is_in_flight:
            return
        first = self.memory.segments[0]
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
        self.memory, self.under_way = self.memory.succeeded(end), None

    @precondition(lambda self: self.under_way is not None)
    @rule(now=st.floats(min_value=0, max_value=1e9))
    def it_fails(self, now: float) -> None:
        self.memory, self.under_way = self.memory.failed("no", now), None
        due = self.memory.due_at()
        assert due is None or due > now

    @precondition(lambda self: self.under_way is not None)
    @rule()
    def the_host_restarts(self) -> None:
        self.memory, self.under_way = self.memory.recovered(), None
        assert self.memory.recovered() == self.memory

    @invariant()
    def segments_cover_what_is_not_kept_without_a_gap(self) -> None:
        covered = [turn for segment in self.memory.segments for turn in range(segment.start, segment.end + 1)]
        assert covered == list(range(self.memory.committed + 1, self.memory.generation + 1))
        assert sorted(self.kept) == list(range(1, self.memory.committed + 1))

    @invariant()
    def a_commit_under_way_keeps_its_end(self) -> None:
        if self.under_way is not None:
            first = self.memory.segments[0]
            assert (first.start, first.end) == self.under_way
            assert first.state == "in_flight"


TestSegments = SegmentsMachine.TestCase
TestSegments.settings = settings(stateful_step_count=40, deadline=None)
