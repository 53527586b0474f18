"""Rows of runs, and the guard that no run writes after its end."""

from collections.abc import Collection, Sequence
from typing import Any, Final, cast

from fallback_plugin.agent.records import Outcome, Run, RunState
from fallback_plugin.agent.store.prompts import read_prompt, write_prompt
from fallback_plugin.agent.store.stored_json import read, written
from fallback_plugin.agent.store.transaction import Rows
from fallback_plugin.errors import AgentError, FencedError

WAITING: Final[frozenset[RunState]] = frozenset({"accepted", "queued", "held"})
"""States of a run that never began."""

_COLUMNS: Final = (
    "id, session, sequence, message, prompt, state, outcome, error, writer, accepted, started, ended"
)
_SELECT: Final = f"SELECT {_COLUMNS} FROM run"  # noqa: S608 -- constants


def find(rows: Rows, run_id: str) -> Run | None:
    """Return a run."""
    return _first(rows, "id = ?", run_id)


def get(rows: Rows, run_id: str) -> Run:
    """Return a run.

    Raises:
        AgentError: 404 if there is none.
    """
    if (run := find(rows, run_id)) is None:
        raise AgentError(f"Run not found: {run_id}", status=404)
    return run


def by_key(rows: Rows, session_id: str, client_key: str) -> Run | None:
    """Return the run that a client's key was first accepted for."""
    return _first(rows, "session = ? AND client_key = ?", session_id, client_key)


def by_message(rows: Rows, session_id: str, message_id: str) -> Run | None:
    """Return the last run that answers, or answered, a message."""
    return _first(rows, "session = ? AND message = ? ORDER BY sequence DESC LIMIT 1", session_id, message_id)


def active(rows: Rows, session_id: str) -> Run | None:
    """Return the run a session is busy with."""
    return _first(rows, "session = ? AND state = 'active'", session_id)


def in_states(rows: Rows, states: Collection[RunState], *, session_id: str | None = None) -> list[Run]:
    """Return the runs in one of some states, of one session or of all, in the order of their acceptance."""
    conditions = [f"state IN ({', '.join('?' * len(states))})"]
    if session_id is not None:
        conditions.append("session = ?")
    elif "ended" not in states:
        conditions.append("state <> 'ended'")  # Has SQLite use the index of those few.
    values = states if session_id is None else (*states, session_id)
    found = rows.execute(f"{_SELECT} WHERE {' AND '.join(conditions)} ORDER BY sequence", tuple(values))
    return [_run(row) for row in found]


def left_by_others(rows: Rows, boot: int) -> list[Run]:
    """Return the runs that an earlier start of the host did not end, in the order of their acceptance."""
    found = rows.execute(f"{_SELECT} WHERE state <> 'ended' AND boot <> ? ORDER BY sequence", (boot,))
    return [_run(row) for row in found]


def last_sequence(rows: Rows) -> int:
    """Return the number of the last acceptance, 0 before the first."""
    return int(rows.execute("SELECT coalesce(max(sequence), 0) FROM run").fetchone()[0])


def insert(rows: Rows, run: Run, *, client_key: str, boot: int) -> None:
    """Add a run."""
    rows.execute(
        "INSERT INTO run (id, session, sequence, client_key, message, prompt, state, boot, accepted) "
        "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            run.id,
            run.session_id,
            run.sequence,
            client_key,
            run.message_id,
            write_prompt(run.prompt),
            run.state,
            boot,
            run.accepted_at,
        ),
    )


def put(rows: Rows, run: Run, *, boot: int) -> Run:
    """Write a run's state down; it is this start's from then on."""
    rows.execute(
        "UPDATE run SET session = ?, state = ?, outcome = ?, error = ?, writer = ?, started = ?, ended = ?, "
        "prompt = ?, boot = ?, message = ? WHERE id = ?",
        (
            run.session_id,
            run.state,
            run.outcome,
            written(run.error) if run.error is not None else None,
            run.writer,
            run.started_at,
            run.ended_at,
            write_prompt(run.prompt),
            boot,
            run.message_id,
            run.id,
        ),
    )
    return run


def note_stop(rows: Rows, run_id: str) -> None:
    """Note that a person stopped an active run, in case it cannot end itself any more."""
    rows.execute("UPDATE run SET stopping = 1 WHERE id = ? AND state <> 'ended'", (run_id,))


def is_stopping(rows: Rows, run_id: str) -> bool:
    """Tell whether a person stopped a run."""
    return rows.execute("SELECT 1 FROM run WHERE id = ? AND stopping", (run_id,)).fetchone() is not None


def writing(rows: Rows, run: Run) -> Run:
    """Return a run as it stands, if it may still write.

    Raises:
        FencedError: if it has ended, or another one carries its token.
    """
    writing_session(rows, run)
    return get(rows, run.id)


def writing_session(rows: Rows, run: Run) -> str:
    """Return the session a run may still write to; its prompt, which may be long, is not read for that.

    Raises:
        FencedError: if it has ended, or another one carries its token.
    """
    found = rows.execute(
        "SELECT session FROM run WHERE id = ? AND state = 'active' AND writer = ?", (run.id, run.writer)
    ).fetchone()
    if found is None:
        raise FencedError(
            f"run {run.id} of session {run.session_id} has ended; what it still writes is refused"
        )
    return str(found[0])


def _first(rows: Rows, condition: str, *values: object) -> Run | None:
    row = rows.execute(f"{_SELECT} WHERE {condition}", values).fetchone()
    return _run(row) if row else None


def _run(row: Sequence[Any]) -> Run:
    run_id = row[0]
    return Run(
        id=run_id,
        session_id=row[1],
        sequence=row[2],
        message_id=row[3],
        prompt=read_prompt(row[4], run_id),
        state=cast("RunState", row[5]),
        outcome=cast("Outcome | None", row[6]),
        error=read(row[7], f"error of run {run_id}"),
        writer=row[8],
        accepted_at=row[9],
        started_at=row[10],
        ended_at=row[11],
    )
