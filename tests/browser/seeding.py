"""Long sessions, written into the store of a host that does not run yet."""

import struct
import zlib
from base64 import b64encode
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Final

import anyio

from fallback_plugin.agent.identifiers import new_id
from fallback_plugin.agent.journal import Defaults, StoredSessions
from fallback_plugin.agent.store import Store, Transaction, messages, parts

PICTURES_EVERY: Final = 10
"""Each fifth answer shows a picture, whose height is not known before it is there."""


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
        time = {"created": 1_000 * number}
        info = {"id": f"msg_{number:05}", "sessionID": session, "time": time}
        if is_user:
            info |= {"role": "user", "agent": "build"}
        else:
            info |= _ANSWER | {"parentID": f"msg_{number - 1:05}"}
            time["completed"] = time["created"] + 700
        row = messages.put(tx.rows, session, info, run_id=None)
        text = (
            f"Question {number}"
            if is_user
            else f"Answer **{number}**.\n\n" + "It has some words. " * (number % 40)
        )
        if number % PICTURES_EVERY == PICTURES_EVERY // 2:
            text += f"\n\n![Picture {number}]({_PICTURE})"
        part = {
            "id": f"prt_{number:05}",
            "messageID": info["id"],
            "sessionID": session,
            "type": "text",
            "text": text,
            "time": {"start": time["created"], "end": time["created"] + 700},
        }
        parts.put(tx.rows, row.key, part, is_open=False)


def _picture(width: int, height: int) -> str:
    """Return a grey picture as the address of an image."""

    def chunk(kind: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    rows = zlib.compress(b"".join(b"\0" + b"\x88" * width for _ in range(height)))
    png = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")
    return f"data:image/png;base64,{b64encode(png).decode()}"


_PICTURE = _picture(240, 180)
_ANSWER = {
    "role": "assistant",
    "providerID": "fake",
    "modelID": "answers",
    "agent": "build",
    "finish": "stop",
}
