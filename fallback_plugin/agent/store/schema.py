"""The tables of the store, and which files are not ours to open."""

import sqlite3
from pathlib import Path
from typing import Final

from fallback_plugin.errors import StoreError
from fallback_plugin.sqlite_file import Format

_MIGRATIONS: Final = (
    """
    CREATE TABLE boot (
      id INTEGER PRIMARY KEY AUTOINCREMENT, started REAL NOT NULL, stopped REAL
    );

    CREATE TABLE session (
      id TEXT NOT NULL PRIMARY KEY, directory TEXT NOT NULL,
      title TEXT NOT NULL, titled_by TEXT NOT NULL, created REAL NOT NULL, updated REAL NOT NULL,
      revision INTEGER NOT NULL DEFAULT 0, next_pos INTEGER NOT NULL DEFAULT 0,
      generation INTEGER NOT NULL DEFAULT 0,
      parent TEXT, agent TEXT, model TEXT, continues TEXT, continued_by TEXT, reverted_to TEXT,
      deleted REAL, folded INTEGER NOT NULL DEFAULT 0
    ) WITHOUT ROWID;
    CREATE INDEX session_updated ON session (updated) WHERE deleted IS NULL;
    CREATE INDEX session_parent ON session (parent) WHERE parent IS NOT NULL;

    CREATE TABLE message (
      key INTEGER PRIMARY KEY, session TEXT NOT NULL REFERENCES session ON DELETE CASCADE,
      pos INTEGER NOT NULL, id TEXT NOT NULL, run TEXT, role TEXT NOT NULL, finish TEXT, info TEXT NOT NULL,
      UNIQUE (session, pos), UNIQUE (session, id)
    );
    CREATE INDEX message_run ON message (run);

    CREATE TABLE part (
      key INTEGER PRIMARY KEY, message INTEGER NOT NULL REFERENCES message ON DELETE CASCADE,
      n INTEGER NOT NULL, id TEXT NOT NULL, kind TEXT NOT NULL, open INTEGER NOT NULL, body TEXT NOT NULL,
      UNIQUE (message, n), UNIQUE (message, id)
    );
    CREATE INDEX part_open ON part (message) WHERE open;

    CREATE TABLE part_chunk (
      part INTEGER NOT NULL REFERENCES part ON DELETE CASCADE, k INTEGER NOT NULL, text TEXT NOT NULL,
      PRIMARY KEY (part, k)
    ) WITHOUT ROWID;

    CREATE TABLE run (
      id TEXT NOT NULL PRIMARY KEY, session TEXT NOT NULL, sequence INTEGER NOT NULL,
      client_key TEXT NOT NULL, message TEXT NOT NULL, prompt TEXT NOT NULL, state TEXT NOT NULL,
      outcome TEXT, error TEXT, boot INTEGER NOT NULL, writer TEXT, stopping INTEGER NOT NULL DEFAULT 0,
      accepted REAL NOT NULL, started REAL, ended REAL,
      UNIQUE (session, client_key)
    ) WITHOUT ROWID;
    CREATE UNIQUE INDEX run_active ON run (session) WHERE state = 'active';
    CREATE INDEX run_open ON run (sequence) WHERE state <> 'ended';
    CREATE INDEX run_message ON run (session, message);
    CREATE INDEX run_sequence ON run (sequence);

    CREATE TABLE event (
      seq INTEGER PRIMARY KEY AUTOINCREMENT, session TEXT, run TEXT, type TEXT NOT NULL, at REAL NOT NULL,
      properties TEXT NOT NULL
    );
    CREATE INDEX event_session ON event (session, seq);

    CREATE TABLE memory_segment (
      key INTEGER PRIMARY KEY, session TEXT NOT NULL, first INTEGER NOT NULL, last INTEGER NOT NULL,
      owner_key TEXT, state TEXT NOT NULL, commit_key TEXT, attempts INTEGER NOT NULL DEFAULT 0,
      next_try REAL, last_error TEXT,
      UNIQUE (session, first)
    );
    CREATE INDEX memory_segment_due ON memory_segment (session) WHERE state <> 'done';
    """,
)

FORMAT: Final = Format(0x46424B41, _MIGRATIONS)


def check_owner(rows: sqlite3.Connection, file: Path) -> None:
    """Raise `StoreError` for a file of a newer release, or of another program."""
    match FORMAT.stranger(rows):
        case "newer":
            raise StoreError(
                f"{file}: written by a newer release of fallback-plugin (its version is "
                f"{FORMAT.version(rows)}, the newest known here {FORMAT.newest}); update this one, or name "
                "another folder"
            )
        case "foreign":
            raise StoreError(f"{file}: a database of another program; name another folder")
