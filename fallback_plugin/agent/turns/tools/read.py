"""The tool `read`: a part of a text file with numbered lines, or what a folder holds."""

import os
from pathlib import Path
from typing import Any, Final

import anyio.to_thread

from fallback_plugin.agent.records import Json
from fallback_plugin.agent.turns.tools.project import folder_of, place_in, read_bytes
from fallback_plugin.agent.turns.tools.tool import Permit, ToolOutput, ToolRefusedError

MAX_FILE: Final = 20 * 1024 * 1024
MAX_LINES: Final = 2000
MAX_LINE: Final = 2000
MAX_OUTPUT: Final = 64 * 1024
MAX_ENTRIES: Final = 1000


class ReadTool:
    """Reads."""

    name: Final = "read"
    description: Final = (
        "Read a text file of the project, with line numbers, or list a folder. "
        f"At most {MAX_LINES} lines at once: use offset and limit for more."
    )
    parameters: Final[dict[str, Any]] = {
        "type": "object",
        "properties": {
            "path": {"type": "string", "minLength": 1, "description": "The file, relative to the project."},
            "offset": {"type": "integer", "minimum": 1, "description": "The first line, from 1."},
            "limit": {
                "type": "integer",
                "minimum": 1,
                "maximum": MAX_LINES,
                "description": "How many lines.",
            },
        },
        "required": ["path"],
        "additionalProperties": False,
    }

    def permit(self, arguments: Json, project: Path) -> Permit:
        """Ask for the place in the project."""
        place = place_in(project, arguments["path"]).as_posix()
        return Permit(place, f"Read {place}")

    async def run(self, arguments: Json, project: Path) -> ToolOutput:
        """Read a file or list a folder."""
        place = place_in(project, arguments["path"])
        return await anyio.to_thread.run_sync(_read, project, place, arguments)


def _read(project: Path, place: Path, arguments: Json) -> ToolOutput:
    if (project.resolve() / place).is_dir():
        return _listed(project, place)
    content = read_bytes(project, place, MAX_FILE)
    if b"\0" in content[:8192]:
        raise ToolRefusedError(f"{place} is not a text file")
    lines = content.decode(errors="replace").splitlines()
    first = arguments.get("offset", 1)
    if first > max(1, len(lines)):
        raise ToolRefusedError(f"{place} has only {len(lines)} lines")
    shown: list[str] = []
    left = MAX_OUTPUT
    for number, line in enumerate(lines[first - 1 :][: arguments.get("limit", MAX_LINES)], first):
        shown.append(f"{number}: {line[:MAX_LINE]}")
        left -= len(shown[-1])
        if left <= 0:
            break
    after = first - 1 + len(shown)
    if after < len(lines):
        shown.append(f"(lines {first} to {after} of {len(lines)}; read on with offset {after + 1})")
    return ToolOutput(place.as_posix(), "\n".join(shown) or "(an empty file)", {"lines": len(lines)})


def _listed(project: Path, place: Path) -> ToolOutput:
    with folder_of(project, place / "anything") as folder, os.scandir(folder) as entries:
        names = sorted(
            f"{entry.name}/" if entry.is_dir(follow_symlinks=False) else entry.name for entry in entries
        )
    more = [f"(and {len(names) - MAX_ENTRIES} more)"] if len(names) > MAX_ENTRIES else []
    return ToolOutput(place.as_posix(), "\n".join([*names[:MAX_ENTRIES], *more]) or "(an empty folder)")
