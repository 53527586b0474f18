"""A command in a process group of its own, which ends as a whole and in a bounded time."""

import os
import signal
import subprocess
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Final

import anyio
from anyio import CancelScope
from anyio.abc import Process

TERM_GRACE_S: Final = 2.0
"""How long a group may take to end by itself once it was told to."""

KILL_GRACE_S: Final = 2.0
"""How long the system may take to end it."""

_LOOK_EVERY_S: Final = 0.02


@asynccontextmanager
async def process_group(
    command: list[str], *, directory: Path, environ: Mapping[str, str], term_grace_s: float = TERM_GRACE_S
) -> AsyncIterator[Process]:
    """Start a command; at the end of the block nothing of its group runs any more, whatever it ignores."""
    with CancelScope(shield=True):  # a stop in the middle would leave a process that nobody knows
        process = await anyio.open_process(
            command,
            cwd=directory,
            env=dict(environ),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        yield process
    finally:
        with CancelScope(shield=True):
            await _end(process, term_grace_s)


async def _end(process: Process, term_grace_s: float) -> None:
    for word, grace_s in ((signal.SIGTERM, term_grace_s), (signal.SIGKILL, KILL_GRACE_S)):
        if not _signal(process.pid, word):
            break
        with anyio.move_on_after(grace_s):
            while _lives(process):  # noqa: ASYNC110 -- nobody is told when a group has ended
                await anyio.sleep(_LOOK_EVERY_S)
    with anyio.move_on_after(KILL_GRACE_S):
        await process.wait()
    if process.stdout is not None:
        await process.stdout.aclose()


def _lives(process: Process) -> bool:
    """Tell whether anything of the group runs; a leader that has ended counts until it is waited for."""
    return _signal(process.pid, 0)


def _signal(group: int, word: int) -> bool:
    """Send a signal to a group; False if there is none."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(group, word)
        return True
    return False
