"""Where a session stands on its chain of models.

What is closed, and until when, only health knows; what failed in a turn, the turn remembers. Neither is kept
here, so nothing outlives either.

Pure: the clock comes in as ``now``, seconds since the epoch. A change is made in two steps,
`FallbackState.plan` and `FallbackState.commit`, so that a plan that was never carried out costs nothing and
one made before a newer change is refused.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from fallback_plugin.fallback.shared_health import ALL_OPEN, SessionHealth
from fallback_plugin.model_ref import ModelRef

Unfit: TypeAlias = Callable[[ModelRef], str | None]
"""Says why a model cannot take the turn, None if it can."""


def any_model(_: ModelRef) -> None:
    """Find every model fit."""


@dataclass(frozen=True, slots=True)
class PassedOver:
    """A candidate that was not taken, why, and if it only cools, until when."""

    model: ModelRef
    reason: str
    until: float | None = None


@dataclass(frozen=True, slots=True)
class Plan:
    """One step along the chain: leave ``failed`` for ``model``, which stands at ``index``.

    With ``model`` equal to ``failed`` it is no step: the same model is asked once more.
    """

    failed: ModelRef
    model: ModelRef
    index: int
    passed_over: tuple[PassedOver, ...] = ()

    @property
    def retries(self) -> bool:
        """Whether the failed model itself is asked again."""
        return self.model == self.failed


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why there is no step: the turn's advances are used up, or no candidate is left."""

    reason: Literal["max_attempts", "exhausted"]
    passed_over: tuple[PassedOver, ...] = ()


Planned: TypeAlias = Plan | Refusal


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Everything of a `FallbackState` that a change may touch."""

    current: ModelRef
    index: int
    attempts: int
    pending: ModelRef | None


@dataclass(frozen=True, slots=True)
class Moved:
    """A primary, and the stand-ins that messages name in its place, the one in use last.

    ``turn`` is the user's message for which that one was chosen, None where that does not matter.
    """

    original: ModelRef
    stand_ins: tuple[ModelRef, ...] = ()
    turn: str | None = None

    def on(self, stand_in: ModelRef, turn: str | None = None) -> "Moved":
        """Return the same with another stand-in in use."""
        others = (each for each in self.stand_ins if each != stand_in)
        return Moved(self.original, (*others, stand_in), turn)

    def __contains__(self, model: ModelRef) -> bool:
        """Tell whether a model is a stand-in; hosts may leave the variant out."""
        bare = model.variant is None
        return any(
            model == each or (bare and (model.provider, model.model) == (each.provider, each.model))
            for each in self.stand_ins
        )


@dataclass(slots=True)
class FallbackState:
    """Models of one session.

    Attributes:
        original: the primary, to come back to.
        current: what the session runs on.
        index: place of ``current`` on the chain, -1 for the primary.
        health: which models are closed, for all sessions; never changed here.
        moved: by agent, the models that its messages name because we put them there, so that the host may
            ask for them by itself; under None what is known of every agent.
        attempts: advances since the turn began.
        pending: a model that was chosen and whose dispatch is not confirmed.
    """

    original: ModelRef
    current: ModelRef
    index: int = -1
    attempts: int = 0
    pending: ModelRef | None = None
    health: SessionHealth = ALL_OPEN
    moved: Mapping[str | None, Moved] = field(default_factory=dict)

    @classmethod
    def on(cls, model: ModelRef, health: SessionHealth = ALL_OPEN) -> "FallbackState":
        """Start on a primary."""
        return cls(original=model, current=model, health=health)

    def cooling(self, model: ModelRef, now: float) -> bool:
        """Tell whether a model is closed; at the very end of its time it is usable."""
        return now < self.health.closed_until(model)

    def obstacle(self, model: ModelRef, now: float, unfit: Unfit = any_model) -> PassedOver | None:
        """Say why a candidate is not taken now, None if it can be."""
        if self.cooling(model, now):
            return PassedOver(model, "cooling", self.health.closed_until(model))
        reason = unfit(model)
        return PassedOver(model, reason) if reason else None

    def next_candidate(self, chain: Sequence[ModelRef], now: float, unfit: Unfit = any_model) -> int | None:
        """Return the place of the next usable model after the present one, never going back."""
        for index in range(self.index + 1, len(chain)):
            if chain[index] != self.current and self.obstacle(chain[index], now, unfit) is None:
                return index
        return None

    def plan(
        self, chain: Sequence[ModelRef], now: float, *, max_attempts: int, unfit: Unfit = any_model
    ) -> Planned:
        """Say what the next step would be, changing nothing."""
        if self.attempts >= max_attempts:
            return Refusal("max_attempts")
        index = self.next_candidate(chain, now, unfit)
        others = (model for model in chain[self.index + 1 : index] if model != self.current)
        obstacles = (self.obstacle(model, now, unfit) for model in others)
        passed_over = tuple(obstacle for obstacle in obstacles if obstacle is not None)
        if index is None:
            return Refusal("exhausted", passed_over)
        return Plan(self.current, chain[index], index, passed_over)

    def again(self) -> Plan:
        """Say what asking the present model once more would be."""
        return Plan(failed=self.current, model=self.current, index=self.index)

    def commit(self, plan: Plan) -> bool:
        """Carry a plan out.

        Returns:
            False, with nothing changed, if the session has left the plan's failed model meanwhile.
        """
        if self.current != plan.failed:
            return False
        self.current = plan.model
        self.index = plan.index
        self.attempts += 1
        self.pending = None
        return True

    def prepare(
        self,
        chain: Sequence[ModelRef],
        now: float,
        *,
        max_attempts: int,
        unfit: Unfit = any_model,
    ) -> Planned:
        """Plan and commit at once, for a change that is on its way already; the new model is pending."""
        planned = self.plan(chain, now, max_attempts=max_attempts, unfit=unfit)
        if isinstance(planned, Plan):
            self.commit(planned)
            self.pending = planned.model
        return planned

    def follow(self, model: ModelRef, chain: Sequence[ModelRef], *, advances: int) -> None:
        """Take in that the session runs on a model, whoever brought it there, after so many advances."""
        if self.current != model and model in chain:
            self.index = max(self.index, chain.index(model))
        self.current = model
        self.attempts = max(self.attempts, advances)

    def moved_of(self, agent: str | None) -> Moved | None:
        """Return what an agent's messages name in the place of a primary, None if nothing."""
        return self.moved.get(agent) or self.moved.get(None)

    def move(self, agent: str | None, model: ModelRef) -> None:
        """Take in that an agent's message names a stand-in."""
        known = self.moved_of(agent)
        of_it = known if known and known.original == self.original else Moved(self.original)
        if model != self.original:
            self.moved = {**self.moved, agent: of_it.on(model)}

    def settle_selection(self, agent: str | None) -> None:
        """Take in that what the host asks for on behalf of an agent is the user's selection."""
        self.moved = {each: moved for each, moved in self.moved.items() if each not in {agent, None}}

    def adopt(self, model: ModelRef) -> None:
        """Make a model the primary and go on with it."""
        self.original = self.current = model
        self.index = -1
        self.begin_turn()

    def begin_turn(self) -> None:
        """Give a new turn of the user's all its advances."""
        self.attempts = 0
        self.pending = None

    def recover(self, now: float) -> bool:
        """Go back to the primary if it is usable.

        Returns:
            False, with nothing changed, on the primary already, or while it cools or somebody else probes it.
        """
        if self.current == self.original or self.cooling(self.original, now):
            return False
        if not self.health.may_ask(self.original):
            return False
        self.current = self.original
        self.index = -1
        self.attempts = 0
        self.pending = None
        return True

    def snapshot(self) -> Snapshot:
        """Copy what a change may touch."""
        return Snapshot(self.current, self.index, self.attempts, self.pending)

    def restore(self, snapshot: Snapshot) -> None:
        """Undo a change. The primary is not part of it."""
        self.current = snapshot.current
        self.index = snapshot.index
        self.attempts = snapshot.attempts
        self.pending = snapshot.pending
