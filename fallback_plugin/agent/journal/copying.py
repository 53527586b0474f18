"""Messages are copied into another session."""

from collections.abc import Mapping, Sequence
from typing import Any

from fallback_plugin.agent.identifiers import NewId
from fallback_plugin.agent.journal import publishing
from fallback_plugin.agent.journal.ending import closed_part
from fallback_plugin.agent.journal.shapes import milliseconds
from fallback_plugin.agent.store import Transaction, messages, parts
from fallback_plugin.agent.store.messages import MessageRow


def copy_messages(tx: Transaction, rows: Sequence[MessageRow], to: str, *, new_id: NewId | None) -> None:
    """Copy messages with their parts, under new names; without ``new_id`` with their names, and their runs.

    What is open is closed in a copy under a new name: nobody would go on with it there. The events of such a
    copy say that it is one, since plugins would take them for a turn under way.
    """
    names: dict[str, str] = {}
    for row in rows:
        name = names[row.id] = new_id("msg") if new_id else row.id
        info: Mapping[str, Any] = {**row.info, "id": name, "sessionID": to}
        if "parentID" in info:
            info = {**info, "parentID": names.get(info["parentID"], info["parentID"])}
        copied = messages.put(tx.rows, to, info, run_id=None if new_id else row.run_id)
        publishing.message_updated(tx, copied, is_copy=new_id is not None)
        still_open = {part.body["id"] for part in parts.open_in_message(tx.rows, row.key)}
        for part in parts.of_message(tx.rows, row.key):
            is_open = part["id"] in still_open
            copy = {**part, "messageID": name, "sessionID": to}
            if new_id:
                copy["id"] = new_id("prt")
                if is_open:
                    copy = closed_part(copy, "cancelled", milliseconds(tx.now))
            parts.put(tx.rows, copied.key, copy, is_open=is_open and not new_id)
            publishing.part_updated(tx, copy, copied.run_id, is_copy=new_id is not None)
