"""What a job of the store works with: rows to change, and the events that this causes."""

import sqlite3
from typing import Final, TypeAlias

from fallback_plugin.agent.records import HostEvent, Json, PassingEvent, StoredEvent
from fallback_plugin.agent.store.stored_json import written

Rows: TypeAlias = sqlite3.Connection
"""A connection inside a transaction."""


class Transaction:
    """One job's part of a transaction. All of it is stored, its events included, or none.

    Attributes:
        rows: where to read and write.
        now: seconds since the epoch, one moment for the whole job.
        boot: the number of this start of the host.
    """

    def __init__(self, rows: Rows, *, now: float, boot: int) -> None:
        self.rows: Final = rows
        self.now: Final = now
        self.boot: Final = boot
        self.events: Final[list[HostEvent]] = []

    def emit(
        self,
        kind: str,
        properties: Json,
        *,
        session_id: str | None,
        run_id: str | None = None,
    ) -> None:
        """Append an event to the log; it is published once this is committed."""
        cursor = self.rows.execute(
            "INSERT INTO event (session, run, type, at, properties) VALUES (?, ?, ?, ?, ?)",
            (session_id, run_id, kind, self.now, written(properties)),
        )
        self.events.append(
            StoredEvent(
                sequence=cursor.lastrowid or 0,
                session_id=session_id,
                type=kind,
                properties=properties,
                run_id=run_id,
            )
        )

    def announce(self, event: PassingEvent) -> None:
        """Publish an event that is no row once this is committed."""
        self.events.append(event)
