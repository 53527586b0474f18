"""The tool `bash`: a command in the project folder, in a process group of its own."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import anyio
from anyio.abc import Process

from fallback_plugin.agent.records import Json
from fallback_plugin.agent.turns.tools.leftover_commands import marked
from fallback_plugin.agent.turns.tools.output import CappedOutput
from fallback_plugin.agent.turns.tools.process_group import TERM_GRACE_S, process_group
from fallback_plugin.agent.turns.tools.tool import Permit, ToolOutput, ToolRefusedError

DEFAULT_TIMEOUT_S: Final = 120
MAX_TIMEOUT_S: Final = 3600
MAX_TITLE: Final = 80

_LAST_OUTPUT_S: Final = 0.5
"""How long the output is read on after a command's end: what it left behind may hold it open."""


class BashTool:
    """Runs commands. ``hidden`` returns the variables that these do not get: the keys of the providers.

    With the name of a ``host`` its commands carry a mark, by which they are found if the host is killed.
    """

    name: Final = "bash"
    description: Final = (
        "Run a shell command in the project folder, without input. Long output is cut in the middle. "
        "What it starts in the background ends with it."
    )
    parameters: Final[dict[str, Any]] = {
        "type": "object",
        "properties": {
            "command": {"type": "string", "minLength": 1, "description": "The command."},
            "description": {"type": "string", "description": "What it does, in a few words."},
            "timeout": {
                "type": "integer",
                "minimum": 1,
                "maximum": MAX_TIMEOUT_S,
                "description": f"Seconds it may take, by default {DEFAULT_TIMEOUT_S}.",
            },
        },
        "required": ["command"],
        "additionalProperties": False,
    }

    def __init__(
        self,
        hidden: Callable[[], frozenset[str]] = frozenset,
        *,
        host: str | None = None,
        term_grace_s: float = TERM_GRACE_S,
    ) -> None:
        self._hidden = hidden
        self._host = host
        self._term_grace_s = term_grace_s

    def permit(self, arguments: Json, project: Path) -> Permit:  # noqa: ARG002 -- a tool's signature
        """Ask for the command."""
        command = arguments["command"]
        if "\0" in command:
            raise ToolRefusedError("a command holds no zero byte")
        return Permit(command, arguments.get("description") or _title(command))

    async def run(self, arguments: Json, project: Path) -> ToolOutput:
        """Run the command to its end, or to the end of its time."""
        timeout_s = arguments.get("timeout", DEFAULT_TIMEOUT_S)
        hidden = self._hidden()
        environ = {name: value for name, value in os.environ.items() if name not in hidden}
        output = CappedOutput()
        command = [shutil.which("bash") or "/bin/sh", "-c", arguments["command"]]
        if self._host is not None:
            command = marked(command, self._host)
        async with process_group(
            command, directory=project, environ=environ, term_grace_s=self._term_grace_s
        ) as process:
            with anyio.move_on_after(timeout_s) as patience:
                await _follow(process, output)
        said = output.text() or "(no output)"
        status = process.returncode
        if patience.cancelled_caught:
            said += f"\n(stopped after {timeout_s} s)"
        elif status:
            said += f"\n(ended with status {status})"
        metadata = {"output": output.text(), "exit": status, "truncated": output.truncated}
        return ToolOutput(arguments.get("description") or _title(arguments["command"]), said, metadata)


async def _follow(process: Process, output: CappedOutput) -> None:
    """Read the output until the command has ended."""
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_read, process, output)
        await process.wait()
        tasks.cancel_scope.deadline = anyio.current_time() + _LAST_OUTPUT_S


async def _read(process: Process, output: CappedOutput) -> None:
    if process.stdout is not None:
        async for chunk in process.stdout:
            output.take(chunk)


def _title(command: str) -> str:
    first = command.strip().partition("\n")[0]
    return first if len(first) <= MAX_TITLE else f"{first[: MAX_TITLE - 1]}…"
