"""Where the real OpenCode is on this machine."""

import os
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final

REPOSITORY: Final = Path(__file__).parents[2]

_OVERRIDE: Final = "OPENCODE_BINARY"
"""Environment variable that names another OpenCode to test against."""


@cache
def find_opencode() -> Path | None:
    """Return an OpenCode that runs, or None.

    npm may have left the launcher of ``opencode-ai`` a stub, because install scripts are off; the package of
    the platform then holds the program.
    """
    return next((candidate for candidate in _candidates() if _runs(candidate)), None)


def _candidates() -> Iterator[Path]:
    if override := os.environ.get(_OVERRIDE):
        yield Path(override)
        return
    modules = REPOSITORY / "node_modules"
    yield modules / ".bin" / "opencode"
    # The baseline build needs no newer processor instructions, so it comes after the plain one.
    yield from sorted(modules.glob("opencode-*-*/bin/opencode"))


def _runs(program: Path) -> bool:
    try:
        return (
            subprocess.run([program, "--version"], capture_output=True, check=False, timeout=30).returncode
            == 0
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
