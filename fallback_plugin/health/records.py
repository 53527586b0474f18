"""The shared file: an SQLite database of a few rows, and every statement that is run on it."""

import contextlib
import fcntl
import os
import sqlite3
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Self

from fallback_plugin.health.closure import FORGOTTEN_AFTER_S, Closure, Probe, storable
from fallback_plugin.health.scope import Key
from fallback_plugin.health.store import Move
from fallback_plugin.health.text import key_text, read_key
from fallback_plugin.health.trouble import HealthFileError
from fallback_plugin.sqlite_file import Format, create_private, set_aside

_MIGRATIONS: Final = (
    """
    CREATE TABLE closed (
      provider TEXT NOT NULL, model TEXT NOT NULL, variant TEXT NOT NULL,
      until REAL NOT NULL, reason TEXT NOT NULL, closed_at REAL NOT NULL,
      PRIMARY KEY (provider, model, variant)
    ) WITHOUT ROWID;
    CREATE TABLE leases (
      key TEXT NOT NULL PRIMARY KEY, holder TEXT NOT NULL, expires_at REAL NOT NULL
    ) WITHOUT ROWID;
    """,
    """
    CREATE TABLE closures (
      key TEXT NOT NULL PRIMARY KEY, until REAL NOT NULL, reason TEXT NOT NULL, failures INTEGER NOT NULL,
      closed_at REAL NOT NULL, probe_holder TEXT, probe_until REAL, shared INTEGER NOT NULL
    ) WITHOUT ROWID;
    INSERT INTO closures
      SELECT model_key(provider, model, variant), until, reason, 1, closed_at, NULL, NULL, 0 FROM closed;
    DROP TABLE closed;
    """,
)
"""``model_key`` gives the text of a model's key."""

FORMAT: Final = Format(0x46424B48, _MIGRATIONS)

_COLUMNS: Final = "until, reason, failures, closed_at, probe_holder, probe_until, shared"

_RETRY_S: Final = 0.001
_DAMAGE: Final = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
_ADVICE: Final[Mapping[int, str]] = {
    sqlite3.SQLITE_BUSY: "another process keeps it locked; end that process and start again",
    sqlite3.SQLITE_LOCKED: "another process keeps it locked; end that process and start again",
    sqlite3.SQLITE_READONLY: "it is read-only; make it and its folder writable",
    sqlite3.SQLITE_PERM: "it is read-only; make it and its folder writable",
    sqlite3.SQLITE_CANTOPEN: "it cannot be opened; make its folder exist and writable, on a local disk",
    sqlite3.SQLITE_FULL: "the disk is full; make room and start again",
    sqlite3.SQLITE_IOERR: "it cannot be read or written; it must be on a local disk that is not full",
}


class Records:
    """An open file. Each call is one short transaction.

    Raises:
        HealthFileError: from every method, when the file cannot be used.
    """

    def __init__(self, file: Path, connection: sqlite3.Connection) -> None:
        self._file = file
        self._connection = connection

    @classmethod
    def open(cls, file: Path, *, timeout_s: float, any_thread: bool = False) -> tuple[Self, Path | None]:
        """Open the file, made first if there is none, and wait for others no longer than ``timeout_s``.

        With ``any_thread``, threads that take turns may use it.

        A damaged file is renamed and a new one begun; the second value is then its new name. Processes open
        in turn, so that two that find the same damage do not rename each other's new file.
        """
        with _explained(file):
            file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with _in_turn(file, timeout_s):
                try:
                    return cls(file, _connected(file, timeout_s, any_thread=any_thread)), None
                except HealthFileError as error:
                    if not error.damaged:
                        raise
                aside = set_aside(file)
                return cls(file, _connected(file, timeout_s, any_thread=any_thread)), aside

    def revision(self) -> int:
        """Return a number that changes when another connection has changed the file, and only then."""
        with _explained(self._file):
            return int(self._connection.execute("PRAGMA data_version").fetchone()[0])

    def closures(self) -> dict[Key, Closure]:
        """Return every record, those of the past included."""
        with _explained(self._file):
            rows = self._connection.execute(f"SELECT key, {_COLUMNS} FROM closures").fetchall()  # noqa: S608
        found = ((read_key(text), columns) for text, *columns in rows)
        return {key: _record(columns) for key, columns in found if key is not None}

    def change(self, key: Key, move: Move) -> Closure | None:
        """Carry a move of a key's record out and return the outcome."""
        with _explained(self._file), self._transaction():
            row = self._connection.execute(
                f"SELECT {_COLUMNS} FROM closures WHERE key = ?",  # noqa: S608 -- a constant
                (key_text(key),),
            ).fetchone()
            after = move(_record(row) if row else None)
            self._put(key, after)
        return after

    def take_in(self, records: Mapping[Key, Closure | None]) -> None:
        """Write records down as they come, None for a key that is open."""
        with _explained(self._file), self._transaction():
            for key, record in records.items():
                self._put(key, record)

    def claim(self, key: str, holder: str, now: float, *, expires_at: float) -> bool:
        """Write down a lease unless another holder has it, and tell whether it was written."""
        with _explained(self._file):
            done = self._connection.execute(
                "INSERT INTO leases VALUES (?1, ?2, ?3) ON CONFLICT DO UPDATE"
                " SET holder = excluded.holder, expires_at = excluded.expires_at"
                " WHERE expires_at <= ?4 OR holder = excluded.holder",
                (storable(key), storable(holder), expires_at, now),
            )
        return done.rowcount == 1

    def sweep(self, now: float) -> None:
        """Throw expired leases and forgotten records away."""
        with _explained(self._file):
            self._connection.execute("DELETE FROM leases WHERE expires_at <= ?", (now,))
            self._connection.execute("DELETE FROM closures WHERE until <= ?", (now - FORGOTTEN_AFTER_S,))

    def shut(self) -> None:
        """Close the file."""
        with _explained(self._file):
            self._connection.close()

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[None]:
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            yield
            self._connection.execute("COMMIT")
        except BaseException:
            if self._connection.in_transaction:
                self._connection.rollback()
            raise

    def _put(self, key: Key, record: Closure | None) -> None:
        if record is None:
            self._connection.execute("DELETE FROM closures WHERE key = ?", (key_text(key),))
            return
        probe = record.probe
        self._connection.execute(
            "INSERT OR REPLACE INTO closures VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            (
                key_text(key),
                record.until,
                record.reason,
                record.failures,
                record.closed_at,
                probe.holder if probe else None,
                probe.until if probe else None,
                record.shared,
            ),
        )


def _record(columns: Sequence[Any]) -> Closure:
    until, reason, failures, closed_at, holder, probe_until, shared = columns
    probe = Probe(holder, probe_until) if holder is not None else None
    return Closure(until, reason, failures, closed_at, probe, bool(shared))


def _connected(file: Path, timeout_s: float, *, any_thread: bool) -> sqlite3.Connection:
    create_private(file)
    connection = sqlite3.connect(
        file, timeout=timeout_s, isolation_level=None, check_same_thread=not any_thread
    )
    try:
        with _explained(file):
            _prepare(connection, file)
    except BaseException:
        connection.close()
        raise
    return connection


def _prepare(connection: sqlite3.Connection, file: Path) -> None:
    _check_owner(connection, file)
    # Others wait while a file is begun, and nothing in it is missed after a power failure.
    connection.execute("PRAGMA synchronous = OFF")
    connection.execute("PRAGMA journal_mode = WAL")
    connection.create_function("model_key", 3, _model_key, deterministic=True)
    FORMAT.migrate(connection)
    connection.execute("PRAGMA synchronous = NORMAL")
    problem = connection.execute("PRAGMA quick_check(1)").fetchone()[0]
    if problem != "ok":
        raise HealthFileError(f"{file}: {problem}", damaged=True)


def _check_owner(connection: sqlite3.Connection, file: Path) -> None:
    match FORMAT.stranger(connection):
        case "newer":
            raise HealthFileError(
                f"{file}: written by a newer release of fallback-plugin (its version is "
                f"{FORMAT.version(connection)}, the newest known here {FORMAT.newest}); use the same release "
                "everywhere"
            )
        case "foreign":
            raise HealthFileError(f"{file}: a database of another program; name another file in health.file")


def _model_key(provider: str, model: str, variant: str) -> str:
    return key_text(Key("model", provider, model, variant))


@contextlib.contextmanager
def _in_turn(file: Path, timeout_s: float) -> Iterator[None]:
    """Hold the lock of the file's folder; the system gives it back when a process dies."""
    folder = os.open(file.parent, os.O_RDONLY)
    try:
        deadline = time.monotonic() + timeout_s
        while not _locked(folder):
            if time.monotonic() >= deadline:
                raise HealthFileError(f"{file}: {_ADVICE[sqlite3.SQLITE_BUSY]}")
            time.sleep(_RETRY_S)
        yield
    finally:
        os.close(folder)


def _locked(folder: int) -> bool:
    try:
        fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


@contextlib.contextmanager
def _explained(file: Path) -> Iterator[None]:
    """Turn what SQLite and the system say into what to do about it."""
    try:
        yield
    except sqlite3.ProgrammingError:
        raise
    except sqlite3.Error as error:
        advice = _ADVICE.get(_primary_code(error), "see what it is, or name another file in health.file")
        raise HealthFileError(f"{file}: {advice} ({error})", damaged=_is_damage(error)) from error
    except OSError as error:
        raise HealthFileError(
            f"{file}: {error.strerror or error}; name a place in health.file that can be written"
        ) from error


def _is_damage(error: sqlite3.Error) -> bool:
    return _primary_code(error) in _DAMAGE


def _primary_code(error: sqlite3.Error) -> int:
    """Return SQLite's result code without its extension, 0 for an error of Python's own."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF
