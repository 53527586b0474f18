"""Which OpenCode there is: this package was made for, and tested with, OpenCode 1.x.

OpenCode 2 does not load plugins of OpenCode 1 and has another HTTP API, so neither the bridge nor ``attach``
works there.
"""

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Final

SUPPORTED: Final = "OpenCode 1.x"

_FIRST_UNSUPPORTED: Final = 2

_PACKAGES: Final = ("opencode-ai", "@opencode/cli")
"""What npm calls OpenCode 1 and OpenCode 2."""

_VERSION: Final = re.compile(r"(?<!\d)(\d+)\.\d+\.\d+\S*")
_ANSWER_S: Final = 10.0


def is_supported(version: str) -> bool:
    """Tell whether a version may work; one that cannot be read counts as such, and so does our own host's."""
    found = _VERSION.search(version)
    return found is None or int(found[1]) < _FIRST_UNSUPPORTED


def version_on_path(path: str | None = None) -> str | None:
    """Return the version of the ``opencode`` on ``path``, None if there is none or it does not tell.

    The package beside the program is read first: starting the program takes a second.
    """
    program = shutil.which("opencode", path=path)
    if program is None:
        return None
    return _packaged(Path(program)) or _answered(program)


def _packaged(program: Path) -> str | None:
    try:
        for folder in program.resolve().parents:
            manifest = folder / "package.json"
            if not manifest.is_file():
                continue
            package = json.loads(manifest.read_bytes())
            known = isinstance(package, dict) and package.get("name") in _PACKAGES
            return str(package.get("version", "")) or None if known else None
    except (OSError, ValueError, RuntimeError):
        return None
    return None


def _answered(program: str) -> str | None:
    try:
        done = subprocess.run(  # noqa: S603 -- the user's own program
            [program, "--version"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_ANSWER_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = _VERSION.search(done.stdout)
    return found[0] if found else None
