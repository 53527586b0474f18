"""The events of all of a server's folders in one stream, told apart again."""

from typing import Final, NamedTuple

from fallback_plugin.wire.fields import Json, optional_object, text

DISPOSED: Final = "server.instance.disposed"
"""The server has put a folder away: whatever ran there has ended."""

_EVERYWHERE: Final = "global"
"""Stands in the place of a folder where an event is about the server."""

_AGAIN: Final = "sync"
"""Stored events come twice: once as ever, and once inside an event of this type."""


class FolderEvent(NamedTuple):
    """An event and the folder it comes from."""

    directory: str
    raw: Json


def of_folder(raw: Json) -> FolderEvent | None:
    """Return the event inside ``{directory, payload}``; None if no folder has it, or had it already."""
    directory = text(raw, "directory")
    payload = optional_object(raw, "payload")
    if not directory or directory == _EVERYWHERE or payload is None or payload.get("type") in (None, _AGAIN):
        return None
    return FolderEvent(directory, payload)
