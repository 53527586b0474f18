"""The database is opened: checked, brought up to date, and this start of the host noted in it."""

import logging
import sqlite3
from pathlib import Path
from typing import Final, NamedTuple

from fallback_plugin.agent.store.schema import FORMAT, check_owner
from fallback_plugin.agent.store.trouble import damaged
from fallback_plugin.errors import StoreError

OLDEST_SQLITE: Final = (3, 35, 0)
"""The first with ``RETURNING``."""

WAL_RESET_MENDED: Final = (3, 51, 3)
"""Before, two connections that write or check-point at once could damage a file; only one of ours does."""

_BUSY_TIMEOUT_S: Final = 5.0
_log = logging.getLogger(__name__)


def connect(file: Path) -> sqlite3.Connection:
    """Return a connection that threads may hand on; each statement is its own transaction until BEGIN."""
    rows = sqlite3.connect(file, timeout=_BUSY_TIMEOUT_S, isolation_level=None, check_same_thread=False)
    rows.execute("PRAGMA foreign_keys = ON")
    return rows


def connect_to_read(file: Path) -> sqlite3.Connection:
    """Return a connection on which nothing can be changed."""
    rows = connect(file)
    rows.execute("PRAGMA query_only = ON")
    return rows


class Prepared(NamedTuple):
    """A database that is ready for writing.

    Attributes:
        boot: this start's number.
        was_cut_off: whether an earlier start did not end in good order.
        notices: what a person should know.
    """

    boot: int
    was_cut_off: bool
    notices: tuple[str, ...]


def prepare(rows: sqlite3.Connection, file: Path, now: float) -> Prepared:
    """Make an open database ready for writing.

    Raises:
        StoreError: for a file of a newer release or of another program, and for a damaged one.
    """
    check_owner(rows, file)
    notices = _choose_journal(rows, file)
    rows.execute("PRAGMA synchronous = FULL")
    FORMAT.migrate(rows)
    was_cut_off = _ended_uncleanly(rows)
    if was_cut_off:
        problem = rows.execute("PRAGMA quick_check(1)").fetchone()[0]
        if problem != "ok":
            raise damaged(file, problem)
        rows.execute("UPDATE boot SET stopped = ? WHERE stopped IS NULL", (now,))
    cursor = rows.execute("INSERT INTO boot (started) VALUES (?)", (now,))
    return Prepared(int(cursor.lastrowid or 0), was_cut_off, notices)


def check_sqlite(version: tuple[int, ...] = sqlite3.sqlite_version_info) -> None:
    """Raise `StoreError` if this Python's SQLite lacks what the store needs."""
    spelled = ".".join(map(str, version))
    if version < OLDEST_SQLITE:
        needed = ".".join(map(str, OLDEST_SQLITE))
        raise StoreError(f"this Python has SQLite {spelled}; use one that has {needed} or later")
    if version < WAL_RESET_MENDED:
        _log.debug("SQLite %s has the WAL-reset defect; the store writes over one connection only", spelled)


def _choose_journal(rows: sqlite3.Connection, file: Path) -> tuple[str, ...]:
    chosen = rows.execute("PRAGMA journal_mode = WAL").fetchone()[0]
    if chosen == "wal":
        return ()
    rows.execute("PRAGMA journal_mode = DELETE")
    reason = "its disk cannot share memory (a network file system?), so that writing is slower"
    return (f"{file}: {reason}; name a folder on a local disk",)


def _ended_uncleanly(rows: sqlite3.Connection) -> bool:
    return rows.execute("SELECT 1 FROM boot WHERE stopped IS NULL").fetchone() is not None
