"""The completed turns of a session that its memory providers have not been told of, as plain values.

No I/O and no clock: the store applies these changes in its own transactions, the turn's end among them.
"""

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
    """A session's count of completed turns, and its segments: the newest of them without a gap."""

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
        if last is not None and last.owner_key == owner_key and last.commit_key is None:
            return SessionMemory(turn, (*self.segments[:-1], replace(last, end=turn)))
        return SessionMemory(turn, (*self.segments, Segment(start=turn, end=turn, owner_key=owner_key)))

    def begun(self, session_id: str, owner_key: str | None) -> "SessionMemory":
        """Let the first segment be in flight, under its name; unchanged if there is none, or no owner.

        ``owner_key`` is used, and remembered, if the segment has no owner.
        """
        if not self.segments or (self.segments[0].owner_key or owner_key) is None:
            return self
        first = self.segments[0]
        return self._with_first(
            replace(
                first,
                owner_key=first.owner_key or owner_key,
                state="in_flight",
                commit_key=first.commit_key or f"{session_id}:{first.start}-{first.end}",
            )
        )

    def succeeded(self, end: int) -> "SessionMemory":
        """Drop the segments up to turn ``end``; of one that goes on after it, keep the rest."""
        left = (segment for segment in self.segments if segment.end > end)
        return SessionMemory(
            self.generation,
            tuple(
                replace(segment, start=end + 1, state="dirty", commit_key=None)
                if segment.start <= end
                else segment
                for segment in left
            ),
        )

    def failed(self, error: str, now: float) -> "SessionMemory":
        """Let the first segment wait, longer after each attempt, and be failed after the last."""
        if not self.segments:
            return self
        attempts = self.segments[0].attempts + 1
        return self._with_first(
            replace(
                self.segments[0],
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
        """Return when the first segment is to be tried again by itself; None if it is not."""
        first = self.segments[0] if self.segments else None
        return first.next_try if first is not None and first.state == "dirty" else None

    def _with_first(self, segment: Segment) -> "SessionMemory":
        return SessionMemory(self.generation, (segment, *self.segments[1:]))
