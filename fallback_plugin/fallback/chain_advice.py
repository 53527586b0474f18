"""Where a person has to write for a chain to be there: the file itself, or the mistake that keeps it out."""

import os
from pathlib import Path

from fallback_plugin.errors import SettingsError
from fallback_plugin.settings import load_settings
from fallback_plugin.settings.discovery import user_file


def chain_advice(directory: Path, file: Path | None = None) -> str:
    """Say what to do for want of a chain; this reads the settings' files.

    Args:
        directory: the project folder.
        file: the one file that the settings are read from, in place of the user's and the project's.
    """
    try:
        load_settings(directory=directory, environ=os.environ, file=file)
    except SettingsError as error:
        wrong = str(error).partition("\n")[0]
        return f"The settings are broken and not in force; mend {wrong}"
    return f"Set fallback_models in {file or user_file(os.environ)}."
