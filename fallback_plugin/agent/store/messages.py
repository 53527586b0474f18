"""Rows of messages. Their position, given by the writing transaction, is the only order there is."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from fallback_plugin.agent.records import Json, Session
from fallback_plugin.agent.store import parts, sessions
from fallback_plugin.agent.store.cursors import cursor, position
from fallback_plugin.agent.store.stored_json import read, written
from fallback_plugin.agent.store.transaction import Rows
from fallback_plugin.errors import AgentError


@dataclass(frozen=True, slots=True)
class MessageRow:
    """A message without its parts. ``key`` is the row's own name, ``run_id`` the run that wrote it."""

    key: int
    position: int
    id: str
    run_id: str | None
    info: Mapping[str, Any]

    @property
    def is_user(self) -> bool:
        """Whether a person wrote it."""
        return self.info.get("role") == "user"


@dataclass(frozen=True, slots=True)
class Page:
    """A contiguous slice of a session, oldest first.

    Attributes:
        items: the messages as ``{info, parts}``.
        positions: where each of them stands.
        next_cursor: leads on in the direction that was asked for; None at the session's end there.
    """

    items: tuple[Json, ...]
    positions: tuple[int, ...]
    next_cursor: str | None
    revision: int


_SELECT: Final = "SELECT key, pos, id, run, role, info FROM message WHERE session = ?"
_NEWEST: Final = 2**62


def page(rows: Rows, session_id: str, *, limit: int | None = None, before: str | None = None) -> Page:
    """Return the last messages, or those before a cursor, as ``{info, parts}``; all of them without a limit.

    Raises:
        AgentError: 404 if there is no such session, 400 for a limit or cursor that is none.
    """
    if limit is not None and limit < 1:
        raise AgentError(f"limit is {limit}; it should be 1 or more")
    session = sessions.get(rows, session_id)
    end = _NEWEST if before is None else position(before, session_id)
    found = [
        _row(row, session_id)
        for row in rows.execute(
            f"{_SELECT} AND pos < ? ORDER BY pos DESC LIMIT ?",
            (session_id, end, -1 if limit is None else limit + 1),
        )
    ]
    has_more = limit is not None and len(found) > limit
    shown = found[:limit][::-1]
    items = _with_parts(rows, session_id, shown)
    next_cursor = cursor(session_id, shown[0].position) if has_more else None
    return Page(items, tuple(message.position for message in shown), next_cursor, session.revision)


def page_from(rows: Rows, session_id: str, *, limit: int, after: str | None = None) -> Page:
    """Return the first messages, or those from a cursor on.

    A cursor stands between two messages: what `page` returns before it and this after it are everything.

    Raises:
        AgentError: 404 if there is no such session, 400 for a cursor that is none.
    """
    session = sessions.get(rows, session_id)
    begin = 0 if after is None else position(after, session_id)
    found = [
        _row(row, session_id)
        for row in rows.execute(
            f"{_SELECT} AND pos >= ? ORDER BY pos LIMIT ?", (session_id, begin, limit + 1)
        )
    ]
    shown, following = found[:limit], found[limit:]
    next_cursor = cursor(session_id, following[0].position) if following else None
    positions = tuple(message.position for message in shown)
    return Page(_with_parts(rows, session_id, shown), positions, next_cursor, session.revision)


def find(rows: Rows, session_id: str, message_id: str) -> MessageRow | None:
    """Return a message of a session."""
    row = rows.execute(f"{_SELECT} AND id = ?", (session_id, message_id)).fetchone()
    return _row(row, session_id) if row else None


def visible(rows: Rows, session: Session, message_id: str) -> MessageRow | None:
    """Return a message of a session that no revert hides."""
    found = find(rows, session.id, message_id)
    hidden = find(rows, session.id, session.reverted_to) if session.reverted_to else None
    return None if found and hidden and found.position >= hidden.position else found


def get(rows: Rows, session_id: str, message_id: str) -> MessageRow:
    """Return a message of a session.

    Raises:
        AgentError: 404 if there is none.
    """
    if (found := find(rows, session_id, message_id)) is None:
        raise AgentError(f"Message not found: {message_id}", status=404)
    return found


def one(rows: Rows, session_id: str, message_id: str) -> Json:
    """Return a message as ``{info, parts}``.

    Raises:
        AgentError: 404 if there is none.
    """
    return _with_parts(rows, session_id, [get(rows, session_id, message_id)])[0]


def key_in_run(rows: Rows, session_id: str, message_id: str, run_id: str) -> int:
    """Return the key of a message that a run wrote.

    Raises:
        AgentError: 404 if there is none, 409 if another run wrote it.
    """
    found = rows.execute(
        "SELECT key, run FROM message WHERE session = ? AND id = ?", (session_id, message_id)
    ).fetchone()
    if found is None:
        raise AgentError(f"Message not found: {message_id}", status=404)
    key, writer = found
    if writer != run_id:
        raise AgentError(f"message {message_id} is not one of run {run_id}", status=409)
    return int(key)


def since(rows: Rows, session_id: str, first: int) -> list[MessageRow]:
    """Return the messages from a position on."""
    found = rows.execute(f"{_SELECT} AND pos >= ? ORDER BY pos", (session_id, first))
    return [_row(row, session_id) for row in found]


def of_run(rows: Rows, run_id: str, session_id: str) -> list[MessageRow]:
    """Return what a run wrote in a session, the person's message with it."""
    found = rows.execute(f"{_SELECT} AND run = ? ORDER BY pos", (session_id, run_id))
    return [_row(row, session_id) for row in found]


def last_user(rows: Rows, session_id: str) -> MessageRow | None:
    """Return the last message of a person."""
    row = rows.execute(f"{_SELECT} AND role = 'user' ORDER BY pos DESC LIMIT 1", (session_id,)).fetchone()
    return _row(row, session_id) if row else None


def put(rows: Rows, session_id: str, info: Json, *, run_id: str | None) -> MessageRow:
    """Add a message at the session's end, or replace the one of this id where it stands."""
    message_id, role, finish = str(info["id"]), str(info["role"]), info.get("finish")
    changed = rows.execute(
        "UPDATE message SET run = ?, role = ?, finish = ?, info = ? WHERE session = ? AND id = ?",
        (run_id, role, finish, written(info), session_id, message_id),
    )
    if not changed.rowcount:
        (end,) = rows.execute(
            "UPDATE session SET next_pos = next_pos + 1 WHERE id = ? RETURNING next_pos - 1", (session_id,)
        ).fetchone()
        rows.execute(
            "INSERT INTO message (session, pos, id, run, role, finish, info) VALUES (?, ?, ?, ?, ?, ?, ?)",
            (session_id, end, message_id, run_id, role, finish, written(info)),
        )
    return get(rows, session_id, message_id)


def delete(rows: Rows, message: MessageRow) -> None:
    """Take a message away, with its parts."""
    rows.execute("DELETE FROM message WHERE key = ?", (message.key,))


def _with_parts(rows: Rows, session_id: str, shown: list[MessageRow]) -> tuple[Json, ...]:
    if not shown:
        return ()
    found = parts.of_messages(rows, session_id, shown[0].position, shown[-1].position)
    return tuple({"info": message.info, "parts": found.get(message.key, [])} for message in shown)


def _row(row: Any, session_id: str) -> MessageRow:  # noqa: ANN401 -- a row of sqlite3 is a tuple of anything
    """Return a message; one whose row is damaged keeps what its columns say."""
    key, place, message_id, run_id, role, info = row
    bare = {"id": message_id, "sessionID": session_id, "role": role}
    return MessageRow(key, place, message_id, run_id, bare | (read(info, f"message {message_id}") or {}))
