"""Where the shared file stands by default."""

from collections.abc import Mapping
from pathlib import Path

from fallback_plugin.settings.discovery import home


def default_file(environ: Mapping[str, str]) -> Path:
    """Return ``$XDG_STATE_HOME/fallback-plugin/health.sqlite3``, by default below ``~/.local/state``.

    A relative ``XDG_STATE_HOME`` is ignored, as the XDG base directory specification asks.
    """
    base = Path(environ.get("XDG_STATE_HOME", ""))
    state = base if base.is_absolute() else home(environ) / ".local" / "state"
    return state / "fallback-plugin" / "health.sqlite3"
