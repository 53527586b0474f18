"""What every store of health offers, whatever it keeps its records in."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from typing import TypeAlias

from fallback_plugin.health import closure
from fallback_plugin.health.closure import MAX_WAIT_S, Closure
from fallback_plugin.health.scope import Key, Scope, closing_key, keys_of
from fallback_plugin.health.view import HealthView
from fallback_plugin.model_ref import ModelRef

Move: TypeAlias = Callable[[Closure | None], Closure | None]
"""From what is known of a key to what is known next; asked again when somebody else was faster."""


class HealthStore(ABC):
    """Closed models and leases.

    Times are seconds since the epoch and come in as arguments; a store has no clock. Calls are synchronous
    and never raise because of the place where the records are kept. Failures are booked on the model that
    was asked, and models that differ in their variant are different models.
    """

    @abstractmethod
    def view(self, now: float) -> HealthView:
        """Return what is closed at ``now``; cheap as long as nothing changed."""

    @abstractmethod
    def change(self, key: Key, move: Move) -> Closure | None:
        """Carry a move of a key's record out, alone among all who share the store, and return the outcome."""

    @abstractmethod
    def claim(self, key: str, holder: str, now: float, *, ttl_s: float) -> bool:
        """Take the lease ``key`` for ``ttl_s`` seconds and tell whether ``holder`` has it now.

        Of several holders one gets it, until it expires; who has it gets it again, for ``ttl_s`` from then.
        """

    @abstractmethod
    def settle(self, timeout_s: float) -> None:
        """Wait until everything that others know is known here, or is known to be out of reach."""

    @abstractmethod
    def shut(self) -> None:
        """Let go of files and connections; a store that others share keeps what it knows."""

    def close(
        self,
        model: ModelRef,
        scope: Scope,
        until: float,
        *,
        reason: str,
        now: float,
        base_s: float = 0.0,
        grows_to_s: float = MAX_WAIT_S,
    ) -> None:
        """Close what a failure of a model closes until ``until``, and for longer the more often it failed.

        ``base_s`` is what is doubled with each failure in a row, 0 for no growth, up to ``grows_to_s``;
        ``reason`` is the kind of the failure. What is closed for longer already stays as it is.
        """
        self.change(
            closing_key(model, scope),
            lambda record: closure.closed(
                record, until, reason=reason, now=now, base_s=base_s, grows_to_s=grows_to_s
            ),
        )

    def begin_probe(self, key: Key, holder: str, now: float, *, ttl_s: float) -> bool:
        """Tell whether ``holder`` may ask a model of a half-open key, as the only one for ``ttl_s`` seconds.

        A key that is open by now may be asked by all, one that is closed by nobody.
        """
        after = self.change(key, lambda record: closure.probed(record, holder, now, ttl_s=ttl_s))
        return closure.may_ask(closure.remembered(after, now), holder, now)

    def end_probe(self, model: ModelRef, holder: str) -> None:
        """Let others probe: the holder's request ended without showing whether the model works."""
        for key in keys_of(model):
            self.change(key, lambda record: closure.given_back(record, holder))

    def reopen(self, model: ModelRef, *, asked_at: float) -> None:
        """Open a model that answered a request sent at ``asked_at``: its provider, account and upstream work.

        What was closed after ``asked_at`` stays closed: the answer says nothing about that.
        """
        for key in keys_of(model):
            self.change(key, lambda record: closure.reopened(record, asked_at=asked_at))

    def clear(self, keys: Iterable[Key]) -> None:
        """Forget what is known of keys."""
        for key in keys:
            self.change(key, lambda _: None)


class LocalHealth(HealthStore):
    """A store of this machine, which can be told what other machines know."""

    @abstractmethod
    def take_in(self, records: Mapping[Key, Closure | None]) -> None:
        """Write records down as they come, None for a key that is open."""

    def settle(self, timeout_s: float) -> None:
        """Do nothing: what others know stands in the same place."""
