"""Rows of parts. An open part's text is its row's and its chunks', one after another."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from fallback_plugin.agent.records import Json
from fallback_plugin.agent.store.stored_json import read, storable, written
from fallback_plugin.agent.store.transaction import Rows

GROWING: Final = frozenset({"text", "reasoning"})
"""Kinds of parts whose text grows."""


@dataclass(frozen=True, slots=True)
class OpenPart:
    """A part that is not finished: a tool that has no result, a text that grows."""

    session_id: str
    message_id: str
    body: Mapping[str, Any]


def put(rows: Rows, message: int, part: Json, *, is_open: bool) -> None:
    """Add or replace a part; what it had grown by goes."""
    kind, part_id = str(part.get("type", "")), str(part["id"])
    key = rows.execute(
        "INSERT INTO part (message, n, id, kind, open, body) VALUES "
        "(?1, (SELECT coalesce(max(n) + 1, 0) FROM part WHERE message = ?1), ?2, ?3, ?4, ?5) "
        "ON CONFLICT (message, id) DO UPDATE SET kind = ?3, open = ?4, body = ?5 RETURNING key",
        (message, part_id, kind, is_open, written(part)),
    ).fetchone()[0]
    rows.execute("DELETE FROM part_chunk WHERE part = ?", (key,))


def grow(rows: Rows, message: int, part_id: str, text: str) -> None:
    """Append to an open part's text."""
    rows.execute(
        "INSERT INTO part_chunk (part, k, text) SELECT key, "
        "(SELECT coalesce(max(k) + 1, 0) FROM part_chunk WHERE part = part.key), ?3 "
        "FROM part WHERE message = ?1 AND id = ?2 AND open",
        (message, part_id, storable(text)),
    )


def text_of(rows: Rows, message: int, part_id: str) -> str:
    """Return a part's text as it has grown, empty if there is no such part."""
    return next(
        (str(part.get("text", "")) for part in of_message(rows, message) if part["id"] == part_id), ""
    )


def delete(rows: Rows, message: int, part_id: str) -> bool:
    """Take a part away and tell whether there was one."""
    done = rows.execute("DELETE FROM part WHERE message = ? AND id = ?", (message, part_id))
    return done.rowcount > 0


def of_messages(rows: Rows, session_id: str, first: int, last: int) -> dict[int, list[dict[str, Any]]]:
    """Return the parts of the messages between two positions, by message, in their order."""
    place = (session_id, first, last)
    texts: dict[int, list[str]] = {}
    for key, text in rows.execute(
        "SELECT c.part, c.text FROM message m JOIN part p ON p.message = m.key AND p.open "
        "JOIN part_chunk c ON c.part = p.key "
        "WHERE m.session = ? AND m.pos BETWEEN ? AND ? ORDER BY c.part, c.k",
        place,
    ):
        texts.setdefault(key, []).append(text)
    found: dict[int, list[dict[str, Any]]] = {}
    for message, message_id, key, part_id, kind, body in rows.execute(
        "SELECT m.key, m.id, p.key, p.id, p.kind, p.body FROM message m JOIN part p ON p.message = m.key "
        "WHERE m.session = ? AND m.pos BETWEEN ? AND ? ORDER BY m.pos, p.n",
        place,
    ):
        part = _part(body, part_id, kind, message_id, session_id)
        found.setdefault(message, []).append(_grown(part, texts.get(key, [])))
    return found


def of_message(rows: Rows, message: int) -> list[dict[str, Any]]:
    """Return one message's parts in their order."""
    session_id, position = rows.execute(
        "SELECT session, pos FROM message WHERE key = ?", (message,)
    ).fetchone()
    return of_messages(rows, session_id, position, position).get(message, [])


def open_ones(rows: Rows) -> list[OpenPart]:
    """Return all that is not finished."""
    return _open(rows, "p.open ORDER BY p.message, p.n")


def open_in_run(rows: Rows, run_id: str) -> list[OpenPart]:
    """Return what is not finished of what a run wrote."""
    return _open(rows, "m.run = ? AND p.open ORDER BY p.message, p.n", run_id)


def open_in_message(rows: Rows, message: int) -> list[OpenPart]:
    """Return what is not finished in a message."""
    return _open(rows, "p.message = ? AND p.open ORDER BY p.n", message)


def _open(rows: Rows, condition: str, *values: object) -> list[OpenPart]:
    found = rows.execute(
        "SELECT m.session, m.id, p.key, p.id, p.kind, p.body "  # noqa: S608 -- constants
        f"FROM part p JOIN message m ON m.key = p.message WHERE {condition}",
        values,
    ).fetchall()
    return [
        OpenPart(
            session_id,
            message_id,
            _grown(_part(body, part_id, kind, message_id, session_id), _texts(rows, key)),
        )
        for session_id, message_id, key, part_id, kind, body in found
    ]


def _texts(rows: Rows, key: int) -> list[str]:
    return [text for (text,) in rows.execute("SELECT text FROM part_chunk WHERE part = ? ORDER BY k", (key,))]


def _part(body: str, part_id: str, kind: str, message_id: str, session_id: str) -> dict[str, Any]:
    """Return a part; one whose row is damaged keeps what its columns say."""
    bare = {"id": part_id, "messageID": message_id, "sessionID": session_id, "type": kind or "unknown"}
    return bare | (read(body, f"part {part_id}") or {})


def _grown(part: dict[str, Any], texts: list[str]) -> dict[str, Any]:
    return {**part, "text": str(part.get("text", "")) + "".join(texts)} if texts else part
