"""The data folder: one host at a time, and nobody else's to read."""

import fcntl
import os
from pathlib import Path
from typing import Final, Self

from fallback_plugin import sqlite_file
from fallback_plugin.agent.store.trouble import explaining
from fallback_plugin.errors import StoreError

DATABASE: Final = "sessions.sqlite3"
_LOCK: Final = "lock"


class DataFolder:
    """A folder that is this process's alone until `leave`; the system gives it back when a process dies."""

    def __init__(self, folder: Path, lock: int) -> None:
        self.file: Final = folder / DATABASE
        self._lock = lock

    @classmethod
    def enter(cls, folder: Path) -> Self:
        """Take the folder, made first if there is none.

        Raises:
            StoreError: if another host uses it, or it cannot be written.
        """
        with explaining(folder):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            lock = os.open(folder / _LOCK, os.O_CREAT | os.O_RDWR, 0o600)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                holder = os.pread(lock, 20, 0).decode("ascii", "replace").strip() or "unknown"
                os.close(lock)
                raise StoreError(
                    f"{folder}: another host (process {holder}) uses it; stop that one or name another folder"
                ) from None
            os.ftruncate(lock, 0)
            os.pwrite(lock, str(os.getpid()).encode(), 0)
            return cls(folder, lock)

    def leave(self) -> None:
        """Give the folder back."""
        # The file stays: a lock on a name that a next host makes anew would not shut out a third one.
        os.close(self._lock)

    def make_private(self) -> None:
        """See that the database exists and that only its owner may read it."""
        sqlite_file.create_private(self.file)
        self.file.chmod(0o600)


def set_aside(folder: Path) -> Path:
    """Rename a damaged database, so that the next start begins with an empty one; return its new name.

    Only ever done because a person asked for it.

    Raises:
        StoreError: if a host uses the folder.
    """
    held = DataFolder.enter(folder)
    try:
        with explaining(held.file):
            if not held.file.exists():
                raise StoreError(f"{held.file}: no sessions are kept here; name another folder")
            return sqlite_file.set_aside(held.file)
    finally:
        held.leave()
