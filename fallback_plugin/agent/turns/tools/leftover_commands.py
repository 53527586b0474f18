"""Commands that a host which was killed has left running: found by a mark in their environment, and ended.

Nothing is remembered of them on disk, where a process id could be another process's by then. What a command
has put into a session of its own (``setsid``, a daemon) was detached on purpose and stays.
"""

import os
import signal
from collections.abc import Iterator, Sequence
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Final

import anyio

from fallback_plugin.agent.turns.tools.process_group import KILL_GRACE_S, TERM_GRACE_S

MARK: Final = "FALLBACK_PLUGIN_COMMAND"
"""The variable that each command and what it starts inherit: the host's name, and the session leader's id."""

_PROCESSES: Final = Path("/proc")
_LOOK_EVERY_S: Final = 0.05


def host_name(data: Path) -> str:
    """Return a name for the hosts of a data folder, of which there is one at a time."""
    return sha256(os.fsencode(data.resolve())).hexdigest()[:16]


def marked(command: Sequence[str], host: str) -> list[str]:
    """Return a command that carries the mark of a host; its process id stays the same."""
    return ["/bin/sh", "-c", f'export {MARK}="$0:$$"; exec "$@"', host, *command]


def leftovers(host: str) -> list[int]:
    """Return the processes of a host's commands, but for this one and those it descends from.

    Only Linux tells the environment of a process; elsewhere there are none.
    """
    mark = f"{MARK}={host}:".encode()
    spared = set(_ancestors())
    return [
        process
        for process, leader in _marked_processes(mark)
        if process not in spared and _session_of(process) == leader
    ]


async def end_leftovers(host: str) -> int:
    """End the processes of a host that is gone, with force if they do not by themselves; return how many."""
    found = leftovers(host)
    for word, grace_s in ((signal.SIGTERM, TERM_GRACE_S), (signal.SIGKILL, KILL_GRACE_S)):
        left = leftovers(host)
        for process in left:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(process, word)
        with anyio.move_on_after(grace_s):
            while left:
                await anyio.sleep(_LOOK_EVERY_S)
                left = leftovers(host)
    return len(found)


def _marked_processes(mark: bytes) -> Iterator[tuple[int, int]]:
    with suppress(OSError):
        for entry in _PROCESSES.iterdir():
            if not entry.name.isdecimal():
                continue
            with suppress(OSError, ValueError):
                for variable in (entry / "environ").read_bytes().split(b"\0"):
                    if variable.startswith(mark):
                        yield int(entry.name), int(variable.removeprefix(mark))


def _session_of(process: int) -> int | None:
    with suppress(OSError):
        return os.getsid(process)
    return None


def _ancestors() -> Iterator[int]:
    process = os.getpid()
    while process > 0:
        yield process
        try:
            status = (_PROCESSES / str(process) / "stat").read_text(encoding="utf-8", errors="replace")
        except OSError:
            return
        process = int(status.rpartition(")")[2].split()[1])
