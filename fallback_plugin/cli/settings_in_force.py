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
    """Return the settings that running hosts go by; what is worth a warning goes to standard error.

    A broken file counts as what it held when it last made sense.

    Raises:
        SettingsError: if they are wrong, and what they were before is not known.
    """
    from fallback_plugin.settings import load_or_last_good  # noqa: PLC0415 -- pydantic, needed here only

    loaded, error = load_or_last_good(directory=Path.cwd(), environ=os.environ, file=config_file)
    if error is not None:
        click.echo(f"warning: {error}\nUntil that is mended, the last good settings stay.", err=True)
    for warning in loaded.warnings:
        click.echo(f"warning: {warning}", err=True)
    return loaded.settings


def settings_as_written(config_file: Path | None) -> "Settings":
    """Return the settings as their files say now, for a command that tries them out and leaves no trace.

    Raises:
        SettingsError: if they are wrong.
    """
    from fallback_plugin.settings import load_settings  # noqa: PLC0415 -- pydantic, needed here only

    loaded = load_settings(directory=Path.cwd(), environ=os.environ, file=config_file)
    for warning in loaded.warnings:
        click.echo(f"warning: {warning}", err=True)
    return loaded.settings
