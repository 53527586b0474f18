"""A copy of everything, made while a host uses the store or not."""

import contextlib
import sqlite3
from pathlib import Path

from fallback_plugin.agent.store.opening import connect_to_read
from fallback_plugin.agent.store.trouble import explaining
from fallback_plugin.errors import StoreError


def back_up(file: Path, to: Path) -> None:
    """Copy a database into a new file, whole as of one moment.

    Raises:
        StoreError: if there is no database, if there is such a file, or if it cannot be written.
    """
    if not file.exists():
        raise StoreError(f"{file}: no sessions are kept here; name another folder")
    unfinished = to.with_name(f"{to.name}.unfinished")
    with explaining(to):
        if to.exists():
            raise StoreError(f"{to}: there is such a file; name another one")
        unfinished.unlink(missing_ok=True)  # one that was interrupted
        unfinished.touch(mode=0o600)
        with (
            contextlib.closing(connect_to_read(file)) as source,
            contextlib.closing(sqlite3.connect(unfinished)) as target,
        ):
            source.backup(target)
        unfinished.rename(to)
