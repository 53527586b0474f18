"""The bridge's log: a rotating file, since stdout belongs to the protocol and nobody reads stderr."""

import logging
from collections.abc import Mapping
from logging.handlers import RotatingFileHandler
from pathlib import Path
from typing import Final

FILE_BYTES: Final = 1024 * 1024
OLD_FILES: Final = 3

_CHATTY: Final = ("asyncio", "httpcore2", "httpx2")
"""Libraries whose own news, request lines among them, are kept out below warning."""

_FORMAT: Final = "%(asctime)s %(levelname)s [%(process)d] %(name)s: %(message)s"


def default_file(environ: Mapping[str, str]) -> Path:
    """Return ``$XDG_STATE_HOME/fallback-plugin/fallback-plugin.log``, by default below ``~/.local/state``."""
    state = environ.get("XDG_STATE_HOME")
    home = environ.get("HOME")
    base = Path(state) if state else (Path(home) if home else Path.home()) / ".local" / "state"
    return base / "fallback-plugin" / "fallback-plugin.log"


def write_log_to(file: Path, *, level: str) -> None:
    """Send all logging of this process to ``file``, in place of where an earlier call sent it.

    A file that cannot be written means no log; it never stops the bridge.
    """
    logging.raiseExceptions = False
    root = logging.getLogger()
    for old in [handler for handler in root.handlers if isinstance(handler, _LogFile)]:
        root.removeHandler(old)
        old.close()
    try:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        handler = _LogFile(
            file, maxBytes=FILE_BYTES, backupCount=OLD_FILES, encoding="utf-8", errors="replace"
        )
    except OSError:
        root.addHandler(logging.NullHandler())
        return
    handler.setFormatter(logging.Formatter(_FORMAT))
    root.addHandler(handler)
    root.setLevel(level.upper())
    for name in _CHATTY:
        logging.getLogger(name).setLevel(logging.WARNING)


class _LogFile(RotatingFileHandler):
    """Ours, told apart from handlers that others set up."""
