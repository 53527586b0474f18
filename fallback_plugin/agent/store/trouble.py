"""What SQLite and the system say, turned into what to do about it."""

import contextlib
import errno
import sqlite3
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from fallback_plugin.errors import StoreError

_FULL: Final = "the disk is full; make room, then send again what was refused. What is stored can be read"
_DAMAGED: Final = (
    "it is damaged, and was left as it is; put a backup in its place, or begin with an empty one: "
    "`fallback-plugin sessions set-aside` renames it"
)
_ELSEWHERE: Final = "it cannot be read or written; it must be on a local disk that is whole and not full"

_ADVICE: Final[Mapping[int, str]] = {
    sqlite3.SQLITE_FULL: _FULL,
    sqlite3.SQLITE_CORRUPT: _DAMAGED,
    sqlite3.SQLITE_NOTADB: _DAMAGED,
    sqlite3.SQLITE_IOERR: _ELSEWHERE,
    sqlite3.SQLITE_BUSY: "another program keeps it locked; end that program",
    sqlite3.SQLITE_LOCKED: "another program keeps it locked; end that program",
    sqlite3.SQLITE_READONLY: "it is read-only; make it and its folder writable",
    sqlite3.SQLITE_PERM: "it is read-only; make it and its folder writable",
    sqlite3.SQLITE_CANTOPEN: "it cannot be opened; make its folder exist and writable, on a local disk",
    sqlite3.SQLITE_TOOBIG: "what is to be stored is too large; send less at once",
}
_MAY_PASS: Final = frozenset(
    {
        sqlite3.SQLITE_FULL,
        sqlite3.SQLITE_IOERR,
        sqlite3.SQLITE_BUSY,
        sqlite3.SQLITE_LOCKED,
        sqlite3.SQLITE_READONLY,
        sqlite3.SQLITE_PERM,
        sqlite3.SQLITE_CANTOPEN,
        sqlite3.SQLITE_NOMEM,
    }
)
"""What refuses a write because of the state of the disk or the machine, not because of the write itself."""

_STATUS: Final[Mapping[int, int]] = {
    sqlite3.SQLITE_FULL: 507,
    sqlite3.SQLITE_BUSY: 503,
    sqlite3.SQLITE_LOCKED: 503,
    sqlite3.SQLITE_TOOBIG: 413,
}


def damaged(file: Path, finding: object) -> StoreError:
    """Return the error for a file whose content is no whole database."""
    return StoreError(f"{file}: {_DAMAGED} ({finding})")


def explained(error: sqlite3.Error, file: Path) -> StoreError:
    """Return an error of SQLite as one that says what to do."""
    # An error that Python's own side of the binding raises has no code.
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    advice = _ADVICE.get(code, "this should not happen; start the host again, and report it if it stays")
    message = f"{file}: {advice} ({error})"
    return StoreError(message, status=_STATUS.get(code, 500), may_pass=code in _MAY_PASS)


@contextlib.contextmanager
def explaining(file: Path) -> Iterator[None]:
    """Raise what goes wrong inside as `StoreError`."""
    try:
        yield
    except sqlite3.Error as error:
        raise explained(error, file) from error
    except OSError as error:
        advice = _FULL if error.errno == errno.ENOSPC else "name a folder that can be written"
        raise StoreError(f"{file}: {error.strerror or error}; {advice}") from error
