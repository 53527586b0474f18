"""The settings a command goes by: those of the present folder, or of one file."""

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from fallback_plugin.settings import Settings

config_option = click.option(
    "--config",
    "config_file",
    metavar="FILE",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Read this settings file in place of yours and the project's.",
)


def settings_in_force(config_file: Path | None) -> "Settings":
    """Return the settings; what is worth a warning goes to standard error.

    Raises:
        SettingsError: if they are wrong.
    """
    from fallback_plugin.settings import load_settings  # noqa: PLC0415 -- pydantic, needed here only

    loaded = load_settings(directory=Path.cwd(), environ=os.environ, file=config_file)
    for warning in loaded.warnings:
        click.echo(f"warning: {warning}", err=True)
    return loaded.settings
