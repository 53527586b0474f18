"""The tool `edit`: one passage of a file replaced by another."""

import re
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
    after, found = _replaced(before, old, new)
    if old == new:
        raise ToolRefusedError("the old and the new text are the same")
    if not found:
        raise ToolRefusedError(f"the old text does not stand in {place}: read it again")
    if found > 1 and not arguments.get("all", False):
        raise ToolRefusedError(
            f"the old text stands {found} times in {place}: give more of what is around it"
        )
    write_bytes(project, place, after.encode())
    name = place.as_posix()
    # Of the passages alone: comparing whole files takes too long for some.
    passages = old[:MAX_DIFF].splitlines(), new[:MAX_DIFF].splitlines()
    diff = "\n".join(unified_diff(*passages, name, name, lineterm=""))
    return ToolOutput(
        name, f"Replaced {found} passage{'s' * (found > 1)} in {name}.", {"diff": diff[:MAX_DIFF]}
    )


def _replaced(before: str, old: str, new: str) -> tuple[str, int]:
    """Return a text with a passage replaced, and how often it stood there.

    A model does not see how lines end, so that a line feed stands for either end, and the new passage gets
    the ends of the old one, or of the file if that is a single line. A carriage return is taken literally.
    """
    if "\r" in old or "\r" in new or "\r\n" not in before:
        return before.replace(old, new), before.count(old)
    has_crlf = before.count("\r\n") * 2 > before.count("\n")
    in_crlf = new.replace("\n", "\r\n")

    def replacement(match: re.Match[str]) -> str:
        passage = match.group()
        return in_crlf if "\r\n" in passage or (has_crlf and "\n" not in passage) else new

    lines = (re.escape(line) for line in old.split("\n"))
    return re.subn(r"\r?\n".join(lines), replacement, before)
