"""A session's lane: which run has it, which wait, and what a cancel covers. No I/O, no clock, no awaiting.

Every decision is one call, so nothing can happen between looking and deciding.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from fallback_plugin.agent.dispatch.accept_sequence import AcceptSequence
from fallback_plugin.agent.dispatch.active_entry import ActiveEntry
from fallback_plugin.agent.records import Run
from fallback_plugin.errors import AgentError, SessionBusyError

CancelMode: TypeAlias = Literal["all", "current", "queue"]
"""``all`` covers what is active, accepted or queued; ``current`` only the run that is or would be next to be
active; ``queue`` only what waits."""

OnDecided: TypeAlias = Callable[[], None]
Decision: TypeAlias = Literal["active", "queued", "cancelled"]


@dataclass(frozen=True, slots=True)
class Waiting:
    """A run in the queue, and the number of the acceptance that brought it there."""

    run: Run
    sequence: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Cancelled:
    """What a cancel hit.

    Attributes:
        is_active: whether something was active that now unwinds.
        active: the run that it was, None if it was none.
        accepted: how many acceptances will end as cancelled when they are decided about.
        dropped: the runs taken out of the queue.
        covered: those acceptances; the run of each is known once it is decided about.
    """

    is_active: bool = False
    active: Run | None = None
    accepted: int = 0
    dropped: tuple[Run, ...] = ()
    covered: tuple["Reservation", ...] = field(default=(), compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class LaneStatus:
    """What a lane holds: ``active`` is 0 or 1; ``is_busy`` until the last terminal event is written."""

    active: int = 0
    accepted: int = 0
    queued: int = 0
    is_busy: bool = False


class Reservation:
    """A prompt's place on a lane, from its acceptance until it is decided what becomes of it.

    Attributes:
        cancelled: the run that ended here because a cancel covered it.
        on_decided: called when the place was given back.
    """

    def __init__(self, lane: "Lane", sequence: int) -> None:
        self.lane = lane
        self.sequence = sequence
        self.cancelled: Run | None = None
        self.on_decided: list[OnDecided] = []

    @property
    def is_closed(self) -> bool:
        """Whether the place was given back."""
        return not self.lane.has(self)

    @property
    def is_covered(self) -> bool:
        """Whether a cancel came after this acceptance."""
        return self.lane.covers(self.sequence)

    def close(self) -> None:
        """Give the place back; harmless if that was done."""
        self.lane.close_reservation(self)


class Lane:
    """The serial executor of one session, as a value that changes.

    Attributes:
        ids: every id of the session, the newest last: compaction lets it go on under a new one.
        mark: the greatest acceptance that a cancel covers, 0 when there is none.
        ending: how many runs were cancelled before they began and wait for their terminal event.
        is_closed: whether the host is stopping: what has not begun stays as it was accepted.
        deletions: how many deletions of the session are under way; no prompt is accepted meanwhile.
        holders: how many tasks work with this lane and count on its staying the same one.
    """

    def __init__(self, sequence: AcceptSequence) -> None:
        self.ids: list[str] = []
        self.active: ActiveEntry | None = None
        self.queue: deque[Waiting] = deque()
        self.mark = 0
        self.ending = 0
        self.is_closed = False
        self.deletions = 0
        self.holders = 0
        self._sequence = sequence
        self._reservations: dict[int, Reservation] = {}
        self._told_busy: list[str] = []

    @property
    def accepted(self) -> int:
        """How many acceptances are not decided about."""
        return len(self._reservations)

    @property
    def is_idle(self) -> bool:
        """Whether nothing is active, accepted or queued, and every terminal event is written."""
        return self.active is None and not (self._reservations or self.queue or self.ending)

    @property
    def status(self) -> LaneStatus:
        """The lane's counts."""
        active = int(self.active is not None)
        return LaneStatus(active, self.accepted, len(self.queue), is_busy=not self.is_idle)

    def reserve(self) -> Reservation:
        """Take a place for a prompt, before it is written down.

        Raises:
            AgentError: with status 409 while the session is being deleted.
        """
        if self.deletions:
            raise AgentError(f"session {self.ids[-1]} is being deleted", status=409)
        return self._keep(self._sequence.take())

    def has(self, reservation: Reservation) -> bool:
        """Tell whether a place is taken still."""
        return self._reservations.get(reservation.sequence) is reservation

    def close_reservation(self, reservation: Reservation) -> None:
        """Give a place back; with the last one goes the mark, which has nothing left to cover."""
        if self.has(reservation):
            del self._reservations[reservation.sequence]
            if not self._reservations:
                self.mark = 0
            for tell in reservation.on_decided:
                tell()

    def covers(self, sequence: int) -> bool:
        """Tell whether a cancel covers an acceptance. Asking does not use the mark up."""
        return sequence <= self.mark

    def enter(self, run: Run, reservation: Reservation) -> Decision:
        """Decide what becomes of an accepted run, and give its place back."""
        covered = reservation.is_covered
        if covered:
            reservation.cancelled = run
        reservation.close()
        if covered:
            self.ending += 1
            return "cancelled"
        if self.active is not None:
            self.queue.append(Waiting(run, reservation.sequence))
            return "queued"
        self.active = ActiveEntry(run)
        return "active"

    def occupy(self, purpose: str) -> ActiveEntry:
        """Take an idle lane for something that is no run; prompts queue behind it.

        Raises:
            AgentError: with status 409 if the lane is busy.
        """
        if self.deletions or not self.is_idle:
            raise SessionBusyError(
                f"{purpose}: session {self.ids[-1]} is busy: stop it, or wait until it is idle",
                session_id=self.ids[-1],
            )
        self.active = ActiveEntry(None)
        return self.active

    def cancel(self, mode: CancelMode = "all") -> Cancelled:
        """Cancel what there is at this moment, and nothing that comes later."""
        reached = self.active if mode != "queue" else None
        if reached is not None:
            reached.cancel()
        covered: tuple[Reservation, ...] = ()
        if self._reservations and (mode == "all" or (mode == "current" and reached is None)):
            self.mark = max(self.mark, self._sequence.last if mode == "all" else min(self._reservations))
            covered = tuple(each for each in self._reservations.values() if each.is_covered)
        dropped = tuple(waiting.run for waiting in self.queue) if mode != "current" else ()
        if dropped:
            self.queue.clear()
            self.ending += len(dropped)
        active = None if reached is None else reached.run
        return Cancelled(
            is_active=reached is not None,
            active=active,
            accepted=len(covered),
            dropped=dropped,
            covered=covered,
        )

    def withdraw(self, run_id: str) -> Run | None:
        """Take a run out of the queue; None if it is not in it."""
        found = next((waiting for waiting in self.queue if waiting.run.id == run_id), None)
        if found is None:
            return None
        self.queue.remove(found)
        self.ending += 1
        return found.run

    def take_steering(self) -> tuple[list[tuple[Run, Reservation]], list[Run]]:
        """Take out of the queue what shall join the active turn, and what a cancel covers.

        Until they have joined, the first are accepted again, so that a cancel reaches them meanwhile.
        """
        joining: list[tuple[Run, Reservation]] = []
        for waiting in [waiting for waiting in self.queue if waiting.run.prompt.delivery == "steer"]:
            if not self.covers(waiting.sequence):
                self.queue.remove(waiting)
                joining.append((waiting.run, self._keep(waiting.sequence)))
        return joining, self._drop_covered()

    def hand_off(self, entry: ActiveEntry) -> tuple[ActiveEntry | None, list[Run]]:
        """Let the next run follow ``entry``; also returned is what was queued and a cancel covers.

        Nothing changes if the lane is another's by now.
        """
        if self.active is not entry:
            return None, []
        self.active = None
        dropped = self._drop_covered()
        if self.queue:
            self.active = ActiveEntry(self.queue.popleft().run)
        elif not self._reservations:
            self.mark = 0
        return self.active, dropped

    def ended(self, count: int) -> None:
        """Note that the terminal events of ``count`` runs are written that never began."""
        self.ending -= count

    def close(self) -> None:
        """Stop: cancel what is active; no run is to be begun any more."""
        self.is_closed = True
        if self.active is not None:
            self.active.cancel()

    def claim_busy(self) -> list[str]:
        """Return the ids that have still to be told busy; the caller tells them."""
        claimed = [session_id for session_id in self.ids if session_id not in self._told_busy]
        self._told_busy += claimed
        return claimed

    def claim_idle(self) -> list[str]:
        """Return the ids that have to be told idle now: none unless the lane is; the caller tells them."""
        if not self.is_idle:
            return []
        claimed, self._told_busy = self._told_busy, []
        return claimed

    def unclaim_busy(self, claimed: list[str]) -> None:
        """Take back `claim_busy`: nobody could be told."""
        self._told_busy = [session_id for session_id in self._told_busy if session_id not in claimed]

    def unclaim_idle(self, claimed: list[str]) -> None:
        """Take back `claim_idle`: nobody could be told, so the session still counts as busy."""
        self._told_busy = [*claimed, *self._told_busy]

    @property
    def is_told_busy(self) -> bool:
        """Whether anybody was told that the session is busy."""
        return bool(self._told_busy)

    def _keep(self, sequence: int) -> Reservation:
        self._reservations[sequence] = Reservation(self, sequence)
        return self._reservations[sequence]

    def _drop_covered(self) -> list[Run]:
        dropped = [waiting.run for waiting in self.queue if self.covers(waiting.sequence)]
        self.queue = deque(waiting for waiting in self.queue if not self.covers(waiting.sequence))
        self.ending += len(dropped)
        return dropped
