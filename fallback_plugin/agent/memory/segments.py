"""The completed turns of a session that its memory providers have not been told of, as plain values.

No I/O and no clock: the store applies these changes in its own transactions, the turn's end among them.
"""

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Final, Literal, TypeAlias

SegmentState: TypeAlias = Literal["dirty", "in_flight", "failed"]
"""``failed``: it was tried often enough; only a boundary tries it again, not the passing of time."""

FIRST_WAIT_S: Final = 30.0
LONGEST_WAIT_S: Final = 3600.0
MAX_ATTEMPTS: Final = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """Turns ``start`` to ``end`` of a session, one owner's.

    Attributes:
        owner_key: the provider configuration that has to be told; None until one is known.
        commit_key: its name for providers, made of its range, as long as one may know it by that: from the
            beginning of an attempt until its failure, over restarts.
        attempts: how often it was tried in vain.
        next_try: when it is tried again by itself, None for at once.
    """

    start: int
    end: int
    owner_key: str | None = None
    state: SegmentState = "dirty"
    commit_key: str | None = None
    attempts: int = 0
    next_try: float | None = None
    last_error: str | None = None


@dataclass(frozen=True, slots=True)
class SessionMemory:
    """A session's count of completed turns, and its segments, oldest first.

    An owner's segments are committed in their order; those of another owner do not wait for them.
    """

    generation: int = 0
    segments: tuple[Segment, ...] = ()

    @property
    def committed(self) -> int:
        """The last turn up to which everything is committed."""
        return self.segments[0].start - 1 if self.segments else self.generation

    @property
    def is_clean(self) -> bool:
        """Whether there is nothing to commit."""
        return not self.segments

    @property
    def is_in_flight(self) -> bool:
        """Whether a provider is being told of a segment."""
        return any(segment.state == "in_flight" for segment in self.segments)

    def marked(self, owner_key: str | None) -> "SessionMemory":
        """Note a completed turn.

        It joins the last segment if that has the same owner and no provider may know it by its name: a
        commit under way, or one that a restart cut off, keeps the end it began with.
        """
        turn = self.generation + 1
        last = self.segments[-1] if self.segments else None
        if last is not None and (last.end, last.owner_key, last.commit_key) == (turn - 1, owner_key, None):
            return SessionMemory(turn, (*self.segments[:-1], replace(last, end=turn)))
        return SessionMemory(turn, (*self.segments, Segment(start=turn, end=turn, owner_key=owner_key)))

    def next_segment(self, owner_key: str | None, without: Collection[str] = frozenset()) -> Segment | None:
        """Return the first segment to commit, None if there is none.

        Args:
            owner_key: the owner of segments that have none.
            without: owners to leave out: they cannot be reached now.
        """
        owned = ((segment.owner_key or owner_key, segment) for segment in self.segments)
        return next((found for owner, found in owned if owner is not None and owner not in without), None)

    def begun(
        self, session_id: str, owner_key: str | None, without: Collection[str] = frozenset()
    ) -> "SessionMemory":
        """Let the next segment be in flight, under its name; unchanged if there is none.

        ``owner_key`` is used, and remembered, if the segment has no owner.
        """
        if (found := self.next_segment(owner_key, without)) is None:
            return self
        return self._with(
            replace(
                found,
                owner_key=found.owner_key or owner_key,
                state="in_flight",
                commit_key=found.commit_key or f"{session_id}:{found.start}-{found.end}",
            )
        )

    def succeeded(self, start: int, end: int) -> "SessionMemory":
        """Drop the segments of the turns ``start`` to ``end``; of one that goes on, keep the rest."""
        kept = [segment for segment in self.segments if not start <= segment.start <= segment.end <= end]
        return SessionMemory(
            self.generation,
            tuple(
                replace(segment, start=end + 1, state="dirty", commit_key=None)
                if start <= segment.start <= end
                else segment
                for segment in kept
            ),
        )

    def failed(self, start: int, error: str, now: float) -> "SessionMemory":
        """Let the segment that begins with a turn wait, longer after each attempt; failed after the last."""
        found = next((segment for segment in self.segments if segment.start == start), None)
        if found is None:
            return self
        attempts = found.attempts + 1
        return self._with(
            replace(
                found,
                state="failed" if attempts >= MAX_ATTEMPTS else "dirty",
                commit_key=None,
                attempts=attempts,
                next_try=now + min(FIRST_WAIT_S * 2 ** (attempts - 1), LONGEST_WAIT_S),
                last_error=error,
            )
        )

    def recovered(self) -> "SessionMemory":
        """Make due again what a restart cut off, under the same name: the provider may know it."""
        return SessionMemory(
            self.generation,
            tuple(
                replace(segment, state="dirty", next_try=None) if segment.state == "in_flight" else segment
                for segment in self.segments
            ),
        )

    def due_at(self) -> float | None:
        """Return when the first of the segments is to be tried again by itself; None if none is."""
        tries = [segment.next_try for segment in self.segments if segment.state == "dirty"]
        return min((at for at in tries if at is not None), default=None)

    def _with(self, changed: Segment) -> "SessionMemory":
        """Put a segment in the place of the one that begins where it does."""
        return SessionMemory(
            self.generation,
            tuple(changed if segment.start == changed.start else segment for segment in self.segments),
        )
