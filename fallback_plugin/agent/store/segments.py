"""Rows of memory segments: which turns of a session a memory provider has still to be told of, and whose."""

from dataclasses import dataclass
from typing import Literal, TypeAlias

from fallback_plugin.agent.store.transaction import Rows

SegmentState: TypeAlias = Literal["dirty", "in_flight", "done", "failed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """Turns ``first`` to ``last`` of a session, to be committed by the provider that ``owner_key`` names.

    Attributes:
        commit_key: the name of an attempt that may have reached the provider; a retry carries it again.
    """

    key: int
    session_id: str
    first: int
    last: int
    owner_key: str | None
    state: SegmentState
    commit_key: str | None
    attempts: int
    next_try: float | None
    last_error: str | None


def mark_turn(rows: Rows, session_id: str, owner_key: str | None) -> int:
    """Note a completed turn and return its number. It joins the last segment if that is the same owner's.

    A segment that an attempt has named keeps its turns: the provider may know them under that name.
    """
    (turn,) = rows.execute(
        "UPDATE session SET generation = generation + 1 WHERE id = ? RETURNING generation", (session_id,)
    ).fetchone()
    joined = rows.execute(
        "UPDATE memory_segment SET last = ?2 WHERE key = (SELECT key FROM memory_segment WHERE session = ?1 "
        "ORDER BY first DESC LIMIT 1) AND state = 'dirty' AND commit_key IS NULL AND owner_key IS ?3",
        (session_id, turn, owner_key),
    )
    if not joined.rowcount:
        rows.execute(
            "INSERT INTO memory_segment (session, first, last, owner_key, state) "
            "VALUES (?, ?, ?, ?, 'dirty')",
            (session_id, turn, turn, owner_key),
        )
    return int(turn)


def of_session(rows: Rows, session_id: str) -> list[Segment]:
    """Return a session's segments in the order of their turns."""
    return [
        Segment(
            key=row[0],
            session_id=row[1],
            first=row[2],
            last=row[3],
            owner_key=row[4],
            state=row[5],
            commit_key=row[6],
            attempts=row[7],
            next_try=row[8],
            last_error=row[9],
        )
        for row in rows.execute(
            "SELECT key, session, first, last, owner_key, state, commit_key, attempts, next_try, last_error "
            "FROM memory_segment WHERE session = ? ORDER BY first",
            (session_id,),
        )
    ]


def move(rows: Rows, session_id: str, to: str) -> None:
    """Let another session carry a session's segments and its count of turns on."""
    rows.execute(
        "UPDATE memory_segment SET session = ? WHERE session = ? AND state <> 'done'", (to, session_id)
    )
    rows.execute(
        "UPDATE session SET generation = (SELECT generation FROM session WHERE id = ?) WHERE id = ?",
        (session_id, to),
    )


def sessions_in_flight(rows: Rows) -> list[str]:
    """Return the sessions that have segments whose attempt is under way."""
    found = rows.execute(
        "SELECT DISTINCT session FROM memory_segment WHERE state = 'in_flight' ORDER BY session"
    )
    return [session_id for (session_id,) in found]


def give_back(rows: Rows, session_id: str) -> int:
    """Make attempts that a restart cut off due again, under their names; return how many that were."""
    return rows.execute(
        "UPDATE memory_segment SET state = 'dirty', next_try = NULL "
        "WHERE session = ? AND state = 'in_flight'",
        (session_id,),
    ).rowcount
