"""The last prompt is taken back, with everything it led to."""

from dataclasses import dataclass

from fallback_plugin.agent.journal import publishing
from fallback_plugin.agent.journal.delivering import drop_reverted, remove
from fallback_plugin.agent.journal.shapes import plain_text
from fallback_plugin.agent.records import Session
from fallback_plugin.agent.store import Transaction, messages, parts, runs, sessions
from fallback_plugin.errors import AgentError, SessionBusyError


@dataclass(frozen=True, slots=True)
class Undone:
    """What an undo took away: how many messages, and the words of the prompt, to be edited and sent again."""

    session: Session
    removed: int
    text: str


def undo(tx: Transaction, session_id: str, revision: int | None) -> Undone:
    """Delete the last prompt that can be seen, and all after it."""
    session = drop_reverted(tx, unbusy(tx, session_id, revision))
    last = messages.last_user(tx.rows, session_id)
    if last is None:
        raise AgentError(f"nothing to undo in session {session_id}", status=409)
    text = plain_text(parts.of_message(tx.rows, last.key))
    lost = messages.since(tx.rows, session_id, last.position)
    remove(tx, session_id, lost)
    session = sessions.put(tx.rows, session, revision=session.revision + 1, updated_at=tx.now)
    publishing.session_updated(tx, session)
    return Undone(session, len(lost), text)


def unbusy(tx: Transaction, session_id: str, revision: int | None) -> Session:
    """Return a session whose messages may be taken away.

    Raises:
        AgentError: 409 while a run is active in it, or if it changed since the caller looked.
    """
    session = sessions.get(tx.rows, session_id)
    if revision is not None and revision != session.revision:
        raise AgentError(
            f"session {session_id} is at revision {session.revision} by now, not {revision}; read it again",
            status=409,
        )
    if runs.active(tx.rows, session_id) is not None:
        raise SessionBusyError(f"Session is busy: {session_id}", session_id=session_id)
    return session
