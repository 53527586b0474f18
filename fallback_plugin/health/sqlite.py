"""Health that all processes of a user share: an SQLite file while it can be used, memory from then on."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

from fallback_plugin.health.closures import NEVER, Closures
from fallback_plugin.health.memory import SWEEP_EVERY_S, MemoryHealth
from fallback_plugin.health.store import HealthStore
from fallback_plugin.health.trouble import HealthFileError
from fallback_plugin.model_ref import ModelRef

if TYPE_CHECKING:
    from fallback_plugin.health.records import Records

BUSY_TIMEOUT_S: Final = 0.05
"""How long a call may wait for another process; the event loop stands still meanwhile."""

AnswerT = TypeVar("AnswerT")


class SqliteHealth(HealthStore):
    """Keeps everything in ``file``, which is opened when it is first needed.

    When the file cannot be used (locked for long, full disk, read-only, written by a newer release), the
    store goes on in memory with what it knows and tells ``on_trouble`` once. A damaged file is renamed and a
    new one begun, which ``on_trouble`` is told as well. Belongs to the thread of its first call.
    """

    def __init__(
        self, file: Path, *, on_trouble: Callable[[str], None], busy_timeout_s: float = BUSY_TIMEOUT_S
    ) -> None:
        self._file = file
        self._on_trouble = on_trouble
        self._busy_timeout_s = busy_timeout_s
        self._closures = Closures()
        # Knows what this process was granted, so that losing the file does not grant it once more.
        self._memory = MemoryHealth(self._closures)
        self._records: Records | None = None
        self._uses_file = True
        self._was_damaged = False
        self._revision: int | None = None
        self._next_sweep = NEVER

    def cooling(self, now: float) -> Mapping[ModelRef, float]:
        """Return the models that are closed at ``now``, each with the time at which it opens again."""
        return self._with_file(
            lambda records: self._known(records).at(now), lambda: self._memory.cooling(now)
        )

    def close_model(self, model: ModelRef, until: float, *, reason: str, now: float) -> None:
        """Close a model until ``until``; one that is closed for longer already stays as it is."""

        def write(records: "Records") -> None:
            if until > max(now, self._known(records)[model]):
                records.close(model, until, reason=reason, now=now)

        self._with_file(write, lambda: None)
        self._memory.close_model(model, until, reason=reason, now=now)

    def open_model(self, model: ModelRef) -> None:
        """Open a model again, whatever time it was closed for."""

        def write(records: "Records") -> None:
            if self._known(records)[model] != NEVER:
                records.open_model(model)

        self._with_file(write, lambda: None)
        self._memory.open_model(model)

    def claim(self, key: str, holder: str, now: float, *, ttl_s: float) -> bool:
        """Take the lease ``key`` for ``ttl_s`` seconds and tell whether ``holder`` has it now."""

        def write(records: "Records") -> bool:
            if now >= self._next_sweep:
                records.sweep(now)
                self._next_sweep = now + SWEEP_EVERY_S
            granted = records.claim(key, holder, now, expires_at=now + ttl_s)
            if granted:
                self._memory.claim(key, holder, now, ttl_s=ttl_s)
            return granted

        return self._with_file(write, lambda: self._memory.claim(key, holder, now, ttl_s=ttl_s))

    def shut(self) -> None:
        """Close the file; a later call is answered from memory."""
        self._uses_file = False
        self._let_go()

    def _with_file(self, ask: Callable[["Records"], AnswerT], otherwise: Callable[[], AnswerT]) -> AnswerT:
        while self._uses_file:
            try:
                return ask(self._opened())
            except HealthFileError as error:
                self._let_go()
                if error.damaged and not self._was_damaged:
                    # Opened once more, it is found damaged by the check and renamed.
                    self._was_damaged = True
                    continue
                self._give_up(str(error))
        return otherwise()

    def _opened(self) -> "Records":
        if self._records is None:
            try:
                from fallback_plugin.health.records import Records  # noqa: PLC0415 -- not when a host starts
            except ImportError as error:
                raise HealthFileError(f"this Python has no SQLite ({error}); use one that has it") from error
            self._records, aside = Records.open(self._file, timeout_s=self._busy_timeout_s)
            self._revision = None
            if aside:
                self._was_damaged = True
                self._on_trouble(
                    f"{self._file} was damaged: what it knew of closed models is lost. It is kept as "
                    f"{aside}, and a new file was begun; nothing needs to be done"
                )
        return self._records

    def _known(self, records: "Records") -> Closures:
        revision = records.revision()
        if revision != self._revision:
            self._closures.replace(records.closed())
            self._revision = revision
        return self._closures

    def _let_go(self) -> None:
        records, self._records = self._records, None
        if records:
            try:
                records.shut()
            except HealthFileError:
                return  # What is committed is in the file, and nothing else is to be kept.

    def _give_up(self, reason: str) -> None:
        self._uses_file = False
        self._on_trouble(
            f"{reason}. Until the end of this process, closed models and leases are known to it alone"
        )
