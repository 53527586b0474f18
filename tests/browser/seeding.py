"""Long sessions, written into the store of a host that does not run yet."""

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import anyio

from fallback_plugin.agent.identifiers import new_id
from fallback_plugin.agent.journal import Defaults, StoredSessions
from fallback_plugin.agent.store import Store, Transaction, messages, parts


def seeded(folder: Path, sizes: Mapping[str, int]) -> dict[str, str]:
    """Write a session of so many messages for each title, and return their ids."""
    with ThreadPoolExecutor(1) as beside:  # the browser's driver has this thread's event loop
        return beside.submit(anyio.run, _seed, folder, sizes).result()


async def _seed(folder: Path, sizes: Mapping[str, int]) -> dict[str, str]:
    store = Store.open(folder)
    try:
        made = StoredSessions(store, Defaults(new_id=new_id))
        ids = {}
        for title, size in sizes.items():
            session = await made.create(str(folder), title=title)
            ids[title] = session.id
            await store.write(partial(_fill, session=session.id, size=size))
        return ids
    finally:
        store.close()


def _fill(tx: Transaction, *, session: str, size: int) -> None:
    for number in range(size):
        is_user = number % 2 == 0
        info = {"id": f"msg_{number:05}", "sessionID": session, "time": {"created": 1_000 * number}}
        info |= (
            {"role": "user", "agent": "build"} if is_user else _ANSWER | {"parentID": f"msg_{number - 1:05}"}
        )
        row = messages.put(tx.rows, session, info, run_id=None)
        text = (
            f"Question {number}"
            if is_user
            else f"Answer **{number}**.\n\n" + "It has some words. " * (number % 40)
        )
        part = {
            "id": f"prt_{number:05}",
            "messageID": info["id"],
            "sessionID": session,
            "type": "text",
            "text": text,
        }
        parts.put(tx.rows, row.key, part, is_open=False)


_ANSWER = {
    "role": "assistant",
    "providerID": "fake",
    "modelID": "answers",
    "agent": "build",
    "finish": "stop",
}
