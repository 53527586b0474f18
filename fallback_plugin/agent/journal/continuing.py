"""A compacted history goes on under a new session id, and its run with it."""

import dataclasses
from collections.abc import Sequence
from typing import NamedTuple

from fallback_plugin.agent.journal import publishing
from fallback_plugin.agent.journal.copying import copy_messages
from fallback_plugin.agent.journal.defaults import Defaults
from fallback_plugin.agent.records import Json, Run, Session
from fallback_plugin.agent.store import Transaction, messages, parts, runs, segments, sessions


class Opening(NamedTuple):
    """A message that begins the new history: a summary of the old one. Its ids are given to it."""

    info: Json
    parts: Sequence[Json]


class Continued(NamedTuple):
    """The new session, and the run as it goes on there under the same token."""

    session: Session
    run: Run


def continue_session(
    tx: Transaction,
    run: Run,
    opening: Sequence[Opening],
    defaults: Defaults,
    *,
    new_id: str,
    keep_from: str | None,
) -> Continued:
    """Move an active run, and the prompts that wait, to a new session; the old one stays as it is.

    Args:
        tx: the transaction.
        run: the active run that compacts.
        opening: what stands first in the new session.
        defaults: where the names of the opening messages come from.
        new_id: the new session's.
        keep_from: the message from which on the old history is copied behind it, ids and all.
    """
    run = runs.writing(tx.rows, run)
    old = sessions.get(tx.rows, run.session_id)
    new = dataclasses.replace(
        old, id=new_id, continues=old.id, continued_by=None, updated_at=tx.now, revision=0, reverted_to=None
    )
    sessions.insert(tx.rows, new)
    old = sessions.put(tx.rows, old, continued_by=new.id)
    publishing.session_created(tx, new)
    publishing.session_updated(tx, old)
    _open(tx, new, opening, run, defaults)
    if keep_from is not None:
        first = messages.get(tx.rows, old.id, keep_from)
        copy_messages(tx, messages.since(tx.rows, old.id, first.position), new.id, new_id=None)
    segments.move(tx.rows, old.id, to=new.id)
    asked = [given.info["id"] for given in opening if given.info.get("role") == "user" and "id" in given.info]
    message_id = asked[-1] if asked else run.message_id
    moved = dataclasses.replace(run, session_id=new.id, message_id=message_id)
    run = runs.put(tx.rows, moved, boot=tx.boot)
    publishing.run_updated(tx, run)
    for waiting in runs.in_states(tx.rows, runs.WAITING, session_id=old.id):
        moved = runs.put(tx.rows, dataclasses.replace(waiting, session_id=new.id), boot=tx.boot)
        publishing.run_updated(tx, moved)
    tx.emit(
        "session.compacted", {"sessionID": old.id, "continuedBy": new.id}, session_id=old.id, run_id=run.id
    )
    return Continued(new, run)


def _open(
    tx: Transaction, session: Session, opening: Sequence[Opening], run: Run, defaults: Defaults
) -> None:
    for given in opening:
        info = {"id": defaults.new_id("msg"), **given.info, "sessionID": session.id}
        message = messages.put(tx.rows, session.id, info, run_id=run.id)
        publishing.message_updated(tx, message)
        for part in given.parts:
            whole = {"id": defaults.new_id("prt"), **part, "messageID": message.id, "sessionID": session.id}
            parts.put(tx.rows, message.key, whole, is_open=False)
            publishing.part_updated(tx, whole, run.id)
