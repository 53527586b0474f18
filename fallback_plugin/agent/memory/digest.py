"""A memory provider that ships: each session's words as a Markdown file in a folder."""

import os
import re
from collections.abc import Iterator, Sequence
from hashlib import sha256
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Final

import anyio.to_thread

from fallback_plugin.events import StoredMessage, UserMessage
from fallback_plugin.hookspecs import MemorySegment, hookimpl
from fallback_plugin.host_client import HostClient

_SAFE: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,99}")
_STOPPED: Final = "*(This answer was stopped here.)*"
_FAILED: Final = "*(This answer failed here.)*"
_UNFINISHED: Final = "*(This answer was not finished yet.)*"
_COMMITTED: Final = "<!-- committed: {} -->\n"


class SessionDigests:
    """Writes a session's file whole whenever a segment of it is committed, so repeating one does no harm.

    Args:
        folder: where the files go; made if it is missing.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @hookimpl
    async def commit_session_memory(self, session_id: str, segment: MemorySegment, host: HostClient) -> None:
        """Write the session's file, unless this very segment is in it."""
        file = self._folder / file_name(session_id)
        if await anyio.to_thread.run_sync(_last_committed, file) == _line(segment.key):
            return
        text = digest(session_id, segment, await host.messages(session_id))
        await anyio.to_thread.run_sync(_write_whole, file, text)


def file_name(session_id: str) -> str:
    """Return a file name for a session: its id where that is a plain word, else a name made from it."""
    if _SAFE.fullmatch(session_id):
        return f"{session_id}.md"
    return f"session-{sha256(session_id.encode()).hexdigest()[:32]}.md"


def digest(session_id: str, segment: MemorySegment, messages: Sequence[StoredMessage]) -> str:
    """Return what was said in a session, without tools and reasoning, as Markdown."""
    paragraphs = "\n".join(_paragraphs(messages))
    return f"{_COMMITTED.format(_line(segment.key))}# Session {_line(session_id)}\n\n{paragraphs}"


def _paragraphs(messages: Sequence[StoredMessage]) -> Iterator[str]:
    speaker = None
    for message in messages:
        said = [
            part.text for part in message.parts if part.type == "text" and not part.synthetic and part.text
        ]
        if (mark := _mark(message)) is not None:
            said.append(mark)
        if not said:
            continue
        name = "User" if isinstance(message.info, UserMessage) else "Assistant"
        if name != speaker:
            yield f"## {name}\n"
            speaker = name
        yield "\n\n".join(said) + "\n"


def _mark(message: StoredMessage) -> str | None:
    """Return a note for an answer that is not all of one, so that no reader takes it for what was meant."""
    if isinstance(message.info, UserMessage):
        return None
    if message.info.error is not None:
        return _STOPPED if message.info.error.is_abort else _FAILED
    return None if message.info.completed else _UNFINISHED


def _line(text: str) -> str:
    """Return a text that can neither end its line nor the comment it stands in."""
    return re.sub(r"\s+|--+", " ", text)


def _last_committed(file: Path) -> str | None:
    """Return the name of the segment that was last written to a file."""
    before, _, after = _COMMITTED.rstrip().partition("{}")
    try:
        with file.open(encoding="utf-8") as lines:
            first = lines.readline().rstrip()
    except (OSError, UnicodeDecodeError):
        return None
    return first[len(before) : -len(after)] if first.startswith(before) and first.endswith(after) else None


def _write_whole(file: Path, text: str) -> None:
    """Write a file so that a reader, also after a crash, sees all of the old text or all of the new one."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with NamedTemporaryFile(
        "w", encoding="utf-8", dir=file.parent, prefix=f".{file.name}.", delete=False
    ) as temporary:
        try:
            temporary.write(text)
            temporary.flush()
            os.fsync(temporary.fileno())
            Path(temporary.name).replace(file)
        except BaseException:
            Path(temporary.name).unlink(missing_ok=True)
            raise
