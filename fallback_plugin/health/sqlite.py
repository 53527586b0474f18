"""Health that all processes of a user share: an SQLite file while it can be used, memory from then on."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

from fallback_plugin.health.closure import NEVER, Closure
from fallback_plugin.health.closures import Closures
from fallback_plugin.health.memory import SWEEP_EVERY_S, MemoryHealth
from fallback_plugin.health.scope import Key
from fallback_plugin.health.store import LocalHealth, Move
from fallback_plugin.health.trouble import HealthFileError
from fallback_plugin.health.view import HealthView

if TYPE_CHECKING:
    from fallback_plugin.health.records import Records

BUSY_TIMEOUT_S: Final = 0.05
"""How long a call may wait for another process; the event loop stands still meanwhile."""

AnswerT = TypeVar("AnswerT")


class SqliteHealth(LocalHealth):
    """Keeps everything in ``file``, which is opened when it is first needed.

    When the file cannot be used (locked for long, full disk, read-only, written by a newer release), the
    store goes on in memory with what it knows and tells ``on_trouble`` once. A damaged file is renamed and a
    new one begun, which ``on_trouble`` is told as well. Belongs to the thread of its first call, unless
    ``any_thread`` says that threads take turns.
    """

    def __init__(
        self,
        file: Path,
        *,
        on_trouble: Callable[[str], None],
        busy_timeout_s: float = BUSY_TIMEOUT_S,
        any_thread: bool = False,
    ) -> None:
        self._file = file
        self._on_trouble = on_trouble
        self._busy_timeout_s = busy_timeout_s
        self._any_thread = any_thread
        self._closures = Closures()
        # Knows what this process was granted, so that losing the file does not grant it once more.
        self._memory = MemoryHealth(self._closures)
        self._records: Records | None = None
        self._uses_file = True
        self._was_damaged = False
        self._revision: int | None = None
        self._next_sweep = NEVER

    def view(self, now: float) -> HealthView:
        """Return what is closed at ``now``; the file is read again only when another process changed it."""
        self._with_file(self._known, lambda: self._closures)
        return HealthView(now, self._closures.all())

    def change(self, key: Key, move: Move) -> Closure | None:
        """Carry a move of a key's record out and return the outcome; what is no change is not written."""

        def write(records: "Records") -> Closure | None:
            before = self._known(records).get(key)
            return before if move(before) == before else records.change(key, move)

        after = self._with_file(write, lambda: move(self._closures.get(key)))
        self._closures.put(key, after)
        return after

    def take_in(self, records: Mapping[Key, Closure | None]) -> None:
        """Write records down as they come."""
        self._with_file(lambda file: file.take_in(records), lambda: None)
        self._memory.take_in(records)

    def claim(self, key: str, holder: str, now: float, *, ttl_s: float) -> bool:
        """Take the lease ``key`` for ``ttl_s`` seconds and tell whether ``holder`` has it now."""

        def write(records: "Records") -> bool:
            if now >= self._next_sweep:
                records.sweep(now)
                self._closures.forget(now)
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
            self._records, aside = Records.open(
                self._file, timeout_s=self._busy_timeout_s, any_thread=self._any_thread
            )
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
            self._closures.replace(records.closures())
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
