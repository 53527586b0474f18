"""The data folder: one host at a time, and nobody else's to read."""

import fcntl
import os
from pathlib import Path
from typing import Final, Self

from fallback_plugin import sqlite_file
from fallback_plugin.agent.store.trouble import damaged, explaining
from fallback_plugin.errors import StoreError

DATABASE: Final = "sessions.sqlite3"
_LOCK: Final = "lock"
_KEPT: Final = "sessions are kept here"


class DataFolder:
    """A folder that is this process's alone until `leave`; the system gives it back when a process dies."""

    def __init__(self, folder: Path, lock: int, *, has_kept_sessions: bool = False) -> None:
        self.file: Final = folder / DATABASE
        self._lock = lock
        self._has_kept_sessions = has_kept_sessions

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
                holder = _lines(lock)[0] or "unknown"
                os.close(lock)
                raise StoreError(
                    f"{folder}: another host (process {holder}) uses it; stop that one or name another folder"
                ) from None
            held = cls(folder, lock, has_kept_sessions=_KEPT in _lines(lock))
            held._write_lock()
            return held

    def leave(self) -> None:
        """Give the folder back."""
        # The file stays: a lock on a name that a next host makes anew would not shut out a third one.
        os.close(self._lock)

    def check_not_emptied(self) -> None:
        """Raise `StoreError` for an empty file where there were sessions.

        A start that was cut off before its first session, or a disk that was full then, leaves an empty file
        as well: that is only taken for a loss if sessions were kept here, or the file's log is still there.
        """
        if not self.file.exists():  # set aside, or taken away on purpose: begun with none
            self._has_kept_sessions = False
            self._write_lock()
            return
        logs = (self.file.with_name(f"{self.file.name}{suffix}") for suffix in ("-wal", "-journal"))
        has_log = any(log.exists() and log.stat().st_size for log in logs)
        if not self.file.stat().st_size and (self._has_kept_sessions or has_log):
            raise damaged(self.file, "it is empty, though sessions were kept in it")

    def note_sessions(self) -> None:
        """Note that sessions are kept here from now on."""
        if not self._has_kept_sessions:
            self._has_kept_sessions = True
            self._write_lock()

    def _write_lock(self) -> None:
        lines = [str(os.getpid()), *([_KEPT] if self._has_kept_sessions else [])]
        os.ftruncate(self._lock, 0)
        os.pwrite(self._lock, "\n".join(lines).encode(), 0)

    def make_private(self) -> None:
        """See that the database exists and that only its owner may read it."""
        sqlite_file.create_private(self.file)
        self.file.chmod(0o600)


def _lines(lock: int) -> list[str]:
    """Return what a lock file says: the process that has it, or had it last, and what was noted here."""
    return os.pread(lock, 100, 0).decode("ascii", "replace").strip().split("\n")


def set_aside(folder: Path) -> Path:
    """Rename a damaged database, so that the next start begins with an empty one; return its new name.

    Only ever done because a person asked for it.

    Raises:
        StoreError: if a host uses the folder, or nothing is kept in it; it is left as it is then.
    """
    file = folder / DATABASE
    with explaining(file):
        if not file.exists():
            raise StoreError(f"{file}: no sessions are kept here; name another folder")
    held = DataFolder.enter(folder)
    try:
        with explaining(held.file):
            return sqlite_file.set_aside(held.file)
    finally:
        held.leave()
