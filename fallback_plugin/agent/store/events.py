"""The log of events: rows with a sequence, so that nobody who comes late misses one."""

from dataclasses import dataclass
from typing import Final

from fallback_plugin.agent.records import StoredEvent
from fallback_plugin.agent.store.stored_json import read, written
from fallback_plugin.agent.store.transaction import Rows

TERMINAL: Final = "run.ended"
"""The one event that every run ends with."""

KEPT_S: Final = 24 * 3600.0
"""How long a session's events stay after its last run ended."""


@dataclass(frozen=True, slots=True)
class EventPage:
    """Events in the order of their sequence.

    Attributes:
        through: up to here nothing is missing but what ``has_gap`` tells of.
        is_last: no more of them were there.
        has_gap: some events asked for are not kept any more: read the sessions themselves.
    """

    events: tuple[StoredEvent, ...]
    through: int
    is_last: bool
    has_gap: bool


def last_sequence(rows: Rows) -> int:
    """Return the sequence of the last event there ever was."""
    row = rows.execute("SELECT seq FROM sqlite_sequence WHERE name = 'event'").fetchone()
    return int(row[0]) if row else 0


def after(rows: Rows, sequence: int, *, session_id: str | None = None, limit: int = 1000) -> EventPage:
    """Return the events after a sequence, of one session or of all."""
    end = last_sequence(rows)
    found = rows.execute(
        "SELECT seq, session, run, type, properties FROM event "
        "WHERE seq > ?1 AND (?2 IS NULL OR session = ?2) ORDER BY seq LIMIT ?3",
        (sequence, session_id, limit),
    ).fetchall()
    (folded,) = rows.execute(
        "SELECT coalesce(max(folded), 0) FROM session WHERE ?1 IS NULL OR id = ?1", (session_id,)
    ).fetchone()
    return EventPage(
        events=tuple(
            StoredEvent(
                sequence=number,
                session_id=session,
                run_id=run,
                type=kind,
                properties=read(properties, f"event {number}") or {},
            )
            for number, session, run, kind, properties in found
        ),
        through=found[-1][0] if len(found) == limit else end,
        is_last=len(found) < limit,
        has_gap=sequence < folded or sequence > end,
    )


def forget_words(rows: Rows, session_id: str) -> None:
    """Take a session's events away, but for the ends of its runs without their words: some wait for them."""
    rows.execute("DELETE FROM event WHERE session = ? AND type <> ?", (session_id, TERMINAL))
    for sequence, properties in rows.execute(
        "SELECT seq, properties FROM event WHERE session = ?", (session_id,)
    ).fetchall():
        told = read(properties, f"event {sequence}") or {}
        rows.execute(
            "UPDATE event SET properties = ? WHERE seq = ?", (written({**told, "text": ""}), sequence)
        )


def fold(rows: Rows, now: float, *, kept_s: float = KEPT_S) -> int:
    """Take away the events of sessions whose last run ended long ago, and return how many that were.

    A deleted session goes with them.
    """
    since = now - kept_s
    quiet = rows.execute(
        "SELECT s.id, s.deleted FROM session s WHERE s.updated <= ?1 AND coalesce(s.deleted, 0) <= ?1 "
        "AND EXISTS (SELECT 1 FROM event e WHERE e.session = s.id) AND NOT EXISTS "
        "(SELECT 1 FROM run r WHERE r.session = s.id AND (r.state <> 'ended' OR r.ended > ?1))",
        (since,),
    ).fetchall()
    count = 0
    for session_id, deleted in quiet:
        (end,) = rows.execute("SELECT max(seq) FROM event WHERE session = ?", (session_id,)).fetchone()
        count += rows.execute("DELETE FROM event WHERE session = ?", (session_id,)).rowcount
        if deleted is None:
            rows.execute("UPDATE session SET folded = ? WHERE id = ?", (end, session_id))
        else:
            rows.execute("DELETE FROM run WHERE session = ?", (session_id,))
            rows.execute("DELETE FROM session WHERE id = ?", (session_id,))
    return count + rows.execute("DELETE FROM event WHERE session IS NULL AND at <= ?", (since,)).rowcount
