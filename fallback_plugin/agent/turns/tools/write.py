"""The tool `write`: a whole file, put in its place at once."""

from pathlib import Path
from typing import Any, Final

import anyio.to_thread

from fallback_plugin.agent.records import Json
from fallback_plugin.agent.turns.tools.project import place_in, write_bytes
from fallback_plugin.agent.turns.tools.tool import Permit, ToolOutput


class WriteTool:
    """Writes."""

    name: Final = "write"
    description: Final = "Write a whole file of the project; one that is there is replaced. Folders are made."
    parameters: Final[dict[str, Any]] = {
        "type": "object",
        "properties": {
            "path": {"type": "string", "minLength": 1, "description": "The file, relative to the project."},
            "content": {"type": "string", "description": "All of its text."},
        },
        "required": ["path", "content"],
        "additionalProperties": False,
    }

    def permit(self, arguments: Json, project: Path) -> Permit:
        """Ask for the place in the project."""
        place = place_in(project, arguments["path"]).as_posix()
        return Permit(place, f"Write {place}")

    async def run(self, arguments: Json, project: Path) -> ToolOutput:
        """Write the file."""
        place = place_in(project, arguments["path"])
        content = arguments["content"].encode(errors="surrogateescape")
        await anyio.to_thread.run_sync(write_bytes, project, place, content)
        return ToolOutput(place.as_posix(), f"Wrote {len(content)} bytes to {place.as_posix()}.")
