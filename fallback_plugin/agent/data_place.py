"""Where a project's sessions are kept unless somebody says otherwise."""

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Final

_DIGITS: Final = 12


def default_data_folder(directory: Path, environ: Mapping[str, str]) -> Path:
    """Return a folder of the project's own in the user's data folder: one host at a time works in it."""
    base = environ.get("XDG_DATA_HOME") or ""
    data = Path(base) if Path(base).is_absolute() else Path.home() / ".local" / "share"
    real = str(directory.resolve())
    digest = hashlib.sha256(real.encode("utf-8", "surrogateescape")).hexdigest()[:_DIGITS]
    return data / "fallback-plugin" / "sessions" / f"{directory.resolve().name or 'root'}-{digest}"
