"""Waiting for what nobody tells of: files that commands write, processes that end."""

from collections.abc import Callable
from pathlib import Path

import anyio


async def until(condition: Callable[[], bool]) -> None:
    """Look until something holds."""
    with anyio.fail_after(5):
        while not condition():  # noqa: ASYNC110 -- nobody tells
            await anyio.sleep(0.01)


def lives(pid: int) -> bool:
    """Tell whether a process runs; one that only waits to be collected does not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2]
    except FileNotFoundError:
        return False
    return not state.startswith("Z")


async def pid_in(file: Path) -> int:
    """Return the process id that a command writes to a file."""
    await until(lambda: _written(file).isdigit())
    return int(_written(file))


def _written(file: Path) -> str:
    return file.read_text().strip() if file.exists() else ""
