"""The events that a change causes, appended in the transaction of the change."""

from fallback_plugin.agent.journal.growing import Growth
from fallback_plugin.agent.journal.shapes import milliseconds, run_info, session_info
from fallback_plugin.agent.records import Json, PassingEvent, Run, Session
from fallback_plugin.agent.store import Transaction
from fallback_plugin.agent.store.cursors import cursor
from fallback_plugin.agent.store.events import TERMINAL
from fallback_plugin.agent.store.messages import MessageRow
from fallback_plugin.wire.event import COPIED


def session_created(tx: Transaction, session: Session) -> None:
    """Tell of a new session."""
    _session(tx, "session.created", session)


def session_updated(tx: Transaction, session: Session) -> None:
    """Tell of a session's changed title, model, revert or time."""
    _session(tx, "session.updated", session)


def session_deleted(tx: Transaction, session: Session) -> None:
    """Tell that a session is gone."""
    _session(tx, "session.deleted", session)


def message_updated(tx: Transaction, message: MessageRow, *, is_copy: bool = False) -> None:
    """Tell of a new or changed message.

    ``position``, ``cursor`` and ``copied`` are our own. With the first two a client knows whether the message
    belongs into the slice of the session that it holds; the third says that nobody has just written it.
    """
    session_id = str(message.info["sessionID"])
    properties = {
        "sessionID": session_id,
        "info": message.info,
        "position": message.position,
        "cursor": cursor(session_id, message.position),
        **({COPIED: True} if is_copy else {}),
    }
    tx.emit("message.updated", properties, session_id=session_id, run_id=message.run_id)


def message_removed(tx: Transaction, session_id: str, message_id: str, run_id: str | None = None) -> None:
    """Tell that a message is gone, with its parts."""
    properties = {"sessionID": session_id, "messageID": message_id}
    tx.emit("message.removed", properties, session_id=session_id, run_id=run_id)


def part_updated(tx: Transaction, part: Json, run_id: str | None = None, *, is_copy: bool = False) -> None:
    """Tell of a new or changed part; for ``copied`` see `message_updated`."""
    session_id = part["sessionID"]
    properties = {"sessionID": session_id, "part": part, "time": milliseconds(tx.now)}
    if is_copy:
        properties[COPIED] = True
    tx.emit("message.part.updated", properties, session_id=session_id, run_id=run_id)


def part_removed(tx: Transaction, session_id: str, message_id: str, part_id: str) -> None:
    """Tell that a part is gone."""
    properties = {"sessionID": session_id, "messageID": message_id, "partID": part_id}
    tx.emit("message.part.removed", properties, session_id=session_id)


def part_grown(tx: Transaction, session_id: str, growth: Growth) -> None:
    """Tell of more text, which is no row: who was not there reads the part.

    ``end`` is our own: with it a client that has just read the part knows whether it holds this text already.
    """
    tx.announce(
        PassingEvent(
            session_id=session_id,
            type="message.part.delta",
            properties={
                "sessionID": session_id,
                "messageID": growth.message_id,
                "partID": growth.part_id,
                "field": "text",
                "delta": growth.text,
                "end": growth.end,
            },
            part_id=growth.part_id,
            end=growth.end,
        )
    )


def session_failed(tx: Transaction, run: Run, error: Json) -> None:
    """Tell why a run failed. A run that was stopped is no error."""
    properties = {"sessionID": run.session_id, "error": error}
    tx.emit("session.error", properties, session_id=run.session_id, run_id=run.id)


def run_updated(tx: Transaction, run: Run) -> None:
    """Tell of a run's new state before its end."""
    properties = {"sessionID": run.session_id, "run": run_info(run)}
    tx.emit("run.updated", properties, session_id=run.session_id, run_id=run.id)


def run_ended(tx: Transaction, run: Run, *, message_id: str | None, text: str) -> None:
    """Tell of a run's end, with all that a client that waited for it needs."""
    properties = {
        "runID": run.id,
        "sessionID": run.session_id,
        "messageID": message_id,
        "outcome": run.outcome,
        "text": text,
        "error": run.error,
    }
    tx.emit(TERMINAL, properties, session_id=run.session_id, run_id=run.id)


def session_status(tx: Transaction, session_id: str, status: str) -> None:
    """Tell that a session became busy or idle."""
    properties = {"sessionID": session_id, "status": {"type": status}}
    tx.emit("session.status", properties, session_id=session_id)
    if status == "idle":
        tx.emit("session.idle", {"sessionID": session_id}, session_id=session_id)


def _session(tx: Transaction, kind: str, session: Session) -> None:
    tx.emit(kind, {"sessionID": session.id, "info": session_info(session)}, session_id=session.id)
