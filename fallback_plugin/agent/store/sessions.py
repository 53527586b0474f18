"""Rows of sessions."""

import dataclasses
from collections.abc import Sequence
from typing import Any, Final

from fallback_plugin.agent.records import Session
from fallback_plugin.agent.store import events
from fallback_plugin.agent.store.models import stored_model, written_model
from fallback_plugin.agent.store.transaction import Rows
from fallback_plugin.errors import AgentError

_COLUMNS: Final = (
    "id, directory, title, created, updated, revision, parent, agent, model, continues, continued_by, "
    "reverted_to, titled_by"
)
_SELECT: Final = f"SELECT {_COLUMNS} FROM session WHERE deleted IS NULL"  # noqa: S608 -- constants


def find(rows: Rows, session_id: str) -> Session | None:
    """Return a session, None if there is none or it was deleted."""
    row = rows.execute(f"{_SELECT} AND id = ?", (session_id,)).fetchone()
    return _session(row) if row else None


def get(rows: Rows, session_id: str) -> Session:
    """Return a session.

    Raises:
        AgentError: 404 if there is none, or it was deleted.
    """
    if (session := find(rows, session_id)) is None:
        raise AgentError(f"Session not found: {session_id}", status=404)
    return session


def latest(rows: Rows, session_id: str) -> Session:
    """Return the session that carries on, the last of those that continue one another.

    Raises:
        AgentError: 404 if there is none, or it was deleted.
    """
    session = get(rows, session_id)
    seen = {session.id}
    while (following := session.continued_by) and following not in seen:
        seen.add(following)
        session = get(rows, following)
    return session


def ids_of(rows: Rows, session_id: str) -> list[str]:
    """Return the ids of the sessions that continue one another, the last one's last.

    Raises:
        AgentError: 404 if there is none, or it was deleted.
    """
    session: Session | None = latest(rows, session_id)
    ids: list[str] = []
    while session is not None and session.id not in ids:
        ids.insert(0, session.id)
        session = find(rows, session.continues) if session.continues else None
    return ids


def newest(
    rows: Rows, *, directory: str | None = None, limit: int | None = None, with_continued: bool = False
) -> list[Session]:
    """Return sessions, the last changed first; those that another one carries on only if asked for."""
    wanted = [
        "" if directory is None else " AND directory = ?",
        "" if with_continued else " AND continued_by IS NULL",
    ]
    values: list[Any] = [] if directory is None else [directory]
    found = rows.execute(
        f"{_SELECT}{''.join(wanted)} ORDER BY updated DESC, id LIMIT ?",
        (*values, -1 if limit is None else limit),
    )
    return [_session(row) for row in found]


def children(rows: Rows, session_id: str) -> list[Session]:
    """Return the sessions that were begun on behalf of one."""
    return [
        _session(row) for row in rows.execute(f"{_SELECT} AND parent = ? ORDER BY created, id", (session_id,))
    ]


def insert(rows: Rows, session: Session) -> None:
    """Add a session."""
    rows.execute(
        f"INSERT INTO session ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",  # noqa: S608 -- constants
        (
            session.id,
            session.directory,
            session.title,
            session.created_at,
            session.updated_at,
            session.revision,
            session.parent_id,
            session.agent,
            written_model(session.model),
            session.continues,
            session.continued_by,
            session.reverted_to,
            session.titled_by,
        ),
    )


def put(rows: Rows, session: Session, **changes: Any) -> Session:  # noqa: ANN401 -- the record's own fields
    """Write a session's changed fields down and return it as it is then."""
    session = dataclasses.replace(session, **changes)
    rows.execute(
        "UPDATE session SET title = ?, titled_by = ?, updated = ?, revision = ?, parent = ?, agent = ?, "
        "model = ?, continues = ?, continued_by = ?, reverted_to = ? WHERE id = ?",
        (
            session.title,
            session.titled_by,
            session.updated_at,
            session.revision,
            session.parent_id,
            session.agent,
            written_model(session.model),
            session.continues,
            session.continued_by,
            session.reverted_to,
            session.id,
        ),
    )
    return session


def touch(rows: Rows, session_id: str, now: float) -> None:
    """Note that something of a session changed."""
    rows.execute("UPDATE session SET updated = ? WHERE id = ?", (now, session_id))


def delete(rows: Rows, session_id: str, now: float) -> None:
    """Take a session's content away. Its row and its runs' ends stay as long as the log does."""
    rows.execute("DELETE FROM message WHERE session = ?", (session_id,))
    rows.execute("DELETE FROM memory_segment WHERE session = ?", (session_id,))
    events.forget_words(rows, session_id)
    rows.execute("UPDATE session SET deleted = ? WHERE id = ?", (now, session_id))


def move(rows: Rows, old: str, new: str) -> int:
    """Let the sessions of a folder, and those of folders in it, be of another one; return how many."""
    inside = f"{old.rstrip('/')}/"
    moved = rows.execute(
        "UPDATE session SET directory = ?2 || substr(directory, length(?1) + 1) "
        "WHERE directory = ?1 OR substr(directory, 1, length(?3)) = ?3",
        (old, new, inside),
    )
    return moved.rowcount


def _session(row: Sequence[Any]) -> Session:
    return Session(
        id=row[0],
        directory=row[1],
        title=row[2],
        created_at=row[3],
        updated_at=row[4],
        revision=row[5],
        parent_id=row[6],
        agent=row[7],
        model=stored_model(row[8], f"session {row[0]}"),
        continues=row[9],
        continued_by=row[10],
        reverted_to=row[11],
        titled_by=row[12],
    )
