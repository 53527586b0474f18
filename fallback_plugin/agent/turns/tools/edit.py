"""The tool `edit`: one passage of a file replaced by another."""

from difflib import unified_diff
from pathlib import Path
from typing import Any, Final

import anyio.to_thread

from fallback_plugin.agent.records import Json
from fallback_plugin.agent.turns.tools.project import place_in, read_bytes, write_bytes
from fallback_plugin.agent.turns.tools.tool import Permit, ToolOutput, ToolRefusedError

MAX_FILE: Final = 20 * 1024 * 1024
MAX_DIFF: Final = 16 * 1024


class EditTool:
    """Edits."""

    name: Final = "edit"
    description: Final = (
        "Replace a passage of a file. The old text has to stand in the file exactly, and only once unless "
        "all is true: give enough of what is around it."
    )
    parameters: Final[dict[str, Any]] = {
        "type": "object",
        "properties": {
            "path": {"type": "string", "minLength": 1, "description": "The file, relative to the project."},
            "old": {"type": "string", "minLength": 1, "description": "The text to replace."},
            "new": {"type": "string", "description": "The text to put there."},
            "all": {"type": "boolean", "description": "Whether to replace it everywhere."},
        },
        "required": ["path", "old", "new"],
        "additionalProperties": False,
    }

    def permit(self, arguments: Json, project: Path) -> Permit:
        """Ask for the place in the project."""
        place = place_in(project, arguments["path"]).as_posix()
        change = {"old": arguments["old"][:MAX_DIFF], "new": arguments["new"][:MAX_DIFF]}
        return Permit(place, f"Edit {place}", change)

    async def run(self, arguments: Json, project: Path) -> ToolOutput:
        """Change the file."""
        place = place_in(project, arguments["path"])
        return await anyio.to_thread.run_sync(_edit, project, place, arguments)


def _edit(project: Path, place: Path, arguments: Json) -> ToolOutput:
    try:
        before = read_bytes(project, place, MAX_FILE).decode()
    except UnicodeDecodeError as error:
        raise ToolRefusedError(f"{place} is not a text file") from error
    old, new = arguments["old"], arguments["new"]
    found = before.count(old)
    if old == new:
        raise ToolRefusedError("the old and the new text are the same")
    if not found:
        raise ToolRefusedError(f"the old text does not stand in {place}: read it again")
    if found > 1 and not arguments.get("all", False):
        raise ToolRefusedError(
            f"the old text stands {found} times in {place}: give more of what is around it"
        )
    write_bytes(project, place, before.replace(old, new).encode())
    name = place.as_posix()
    # Of the passages alone: comparing whole files takes too long for some.
    passages = old[:MAX_DIFF].splitlines(), new[:MAX_DIFF].splitlines()
    diff = "\n".join(unified_diff(*passages, name, name, lineterm=""))
    return ToolOutput(
        name, f"Replaced {found} passage{'s' * (found > 1)} in {name}.", {"diff": diff[:MAX_DIFF]}
    )
