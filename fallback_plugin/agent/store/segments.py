"""Rows of memory segments: which turns of a session a memory provider has still to be told of, and whose."""

from fallback_plugin.agent.memory.segments import Segment, SessionMemory
from fallback_plugin.agent.store.transaction import Rows


def load(rows: Rows, session_id: str) -> SessionMemory:
    """Return what is to be committed of a session."""
    counted = rows.execute("SELECT generation FROM session WHERE id = ?", (session_id,)).fetchone()
    found = rows.execute(
        "SELECT first, last, owner_key, state, commit_key, attempts, next_try, last_error "
        "FROM memory_segment WHERE session = ? ORDER BY first",
        (session_id,),
    )
    segments = tuple(
        Segment(
            start=row[0],
            end=row[1],
            owner_key=row[2],
            state=row[3],
            commit_key=row[4],
            attempts=row[5],
            next_try=row[6],
            last_error=row[7],
        )
        for row in found
    )
    return SessionMemory(int(counted[0]) if counted else 0, segments)


def save(rows: Rows, session_id: str, memory: SessionMemory) -> None:
    """Write down what is to be committed of a session, in place of what was there."""
    rows.execute("UPDATE session SET generation = ? WHERE id = ?", (memory.generation, session_id))
    rows.execute("DELETE FROM memory_segment WHERE session = ?", (session_id,))
    rows.executemany(
        "INSERT INTO memory_segment (session, first, last, owner_key, state, commit_key, attempts, next_try, "
        "last_error) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
        [
            (
                session_id,
                segment.start,
                segment.end,
                segment.owner_key,
                segment.state,
                segment.commit_key,
                segment.attempts,
                segment.next_try,
                segment.last_error,
            )
            for segment in memory.segments
        ],
    )


def mark_turn(rows: Rows, session_id: str, owner_key: str | None) -> int:
    """Note a completed turn and return its number."""
    memory = load(rows, session_id).marked(owner_key)
    save(rows, session_id, memory)
    return memory.generation


def move(rows: Rows, session_id: str, to: str) -> None:
    """Let another session carry a session's segments and its count of turns on."""
    save(rows, to, load(rows, session_id))
    rows.execute("DELETE FROM memory_segment WHERE session = ?", (session_id,))


def give_back(rows: Rows, session_id: str) -> None:
    """Make attempts that a restart cut off due again, under their names."""
    save(rows, session_id, load(rows, session_id).recovered())


def sessions_in_flight(rows: Rows) -> list[str]:
    """Return the sessions that have segments whose attempt is under way."""
    found = rows.execute(
        "SELECT DISTINCT session FROM memory_segment WHERE state = 'in_flight' ORDER BY session"
    )
    return [session_id for (session_id,) in found]


def sessions_with_segments(rows: Rows) -> list[str]:
    """Return the sessions that have something to commit."""
    found = rows.execute("SELECT DISTINCT session FROM memory_segment ORDER BY session")
    return [session_id for (session_id,) in found]
