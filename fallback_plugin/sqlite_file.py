"""What SQLite files of ours have in common: whose they are, their versions, and a damaged one's way out."""

import contextlib
import os
import sqlite3
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

Stranger: TypeAlias = Literal["newer", "foreign"]
"""A file that is not to be touched: of a newer release, or of another program."""


@dataclass(frozen=True, slots=True)
class Format:
    """What a file of one kind looks like.

    Attributes:
        application_id: stands in the file's header and tells our files from those of other programs.
        migrations: the n-th takes a file from version n to n + 1; a file's version stands in
            ``PRAGMA user_version``. A release that changes the tables appends one and leaves the others.
    """

    application_id: int
    migrations: tuple[str, ...]

    @property
    def newest(self) -> int:
        """The version that this release writes."""
        return len(self.migrations)

    def version(self, rows: sqlite3.Connection) -> int:
        """Return a file's version; 0 for an empty one."""
        return _number(rows, "user_version")

    def stranger(self, rows: sqlite3.Connection) -> Stranger | None:
        """Tell why a file is not to be touched; None for ours, and for an empty one."""
        if _number(rows, "application_id") == self.application_id:
            return "newer" if self.version(rows) > self.newest else None
        is_used = self.version(rows) or rows.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
        return "foreign" if is_used else None

    def migrate(self, rows: sqlite3.Connection) -> None:
        """Bring the tables to this release's version, all steps or none."""
        version = self.version(rows)
        if version == self.newest:
            return
        try:
            rows.executescript(
                f"BEGIN IMMEDIATE; {''.join(self.migrations[version:])}"
                f"PRAGMA application_id = {self.application_id}; PRAGMA user_version = {self.newest}; COMMIT"
            )
        except sqlite3.Error:
            if rows.in_transaction:
                rows.rollback()
            raise


def create_private(file: Path) -> None:
    """Make an empty file that only its owner may read, unless there is one.

    A file that is there is not opened: to close it again would release SQLite's locks on it.
    """
    with contextlib.suppress(FileExistsError):
        os.close(os.open(file, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))


def set_aside(file: Path) -> Path:
    """Rename a damaged file, so that a new one can be begun; return its new name."""
    number = 1
    while (aside := file.with_name(f"{file.name}.damaged-{number}")).exists():
        number += 1
    # The log goes first: left behind, it would be played into the new file.
    for suffix in ("-wal", "-shm", "-journal", ""):
        with contextlib.suppress(FileNotFoundError):
            file.with_name(f"{file.name}{suffix}").rename(aside.with_name(f"{aside.name}{suffix}"))
    return aside


def _number(rows: sqlite3.Connection, pragma: str) -> int:
    return int(rows.execute(f"PRAGMA {pragma}").fetchone()[0])
