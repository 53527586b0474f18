"""What another process uses, as Linux tells it under ``/proc``."""

import os
from pathlib import Path
from typing import Final

_PAGE_BYTES: Final = os.sysconf("SC_PAGE_SIZE")
_TICKS_A_SECOND: Final = os.sysconf("SC_CLK_TCK")
_USER_TICKS, _SYSTEM_TICKS = 11, 12


def resident_bytes(pid: int) -> int:
    """Return the memory a process has in RAM."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * _PAGE_BYTES


def open_handles(pid: int) -> int:
    """Return how many files, pipes and sockets a process has open."""
    return sum(1 for _ in Path(f"/proc/{pid}/fd").iterdir())


def cpu_seconds(pid: int) -> float:
    """Return the processor time of all of a process's threads, to 10 ms."""
    # The name in brackets may hold spaces; the numbers follow it.
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[_USER_TICKS]) + int(fields[_SYSTEM_TICKS])) / _TICKS_A_SECOND
