"""``fallback-plugin sessions``: what is kept of our own agent host's sessions, as files."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

_Command = TypeVar("_Command", bound=Callable[..., Any])

data_option: Callable[[_Command], _Command] = click.option(
    "--data-dir",
    metavar="DIR",
    type=click.Path(path_type=Path, file_okay=False),
    help="Where the sessions are kept; by default this project's folder in the user's data folder.",
)


@click.group()
def sessions() -> None:
    """Back up the sessions of `fallback-plugin serve`, or set a damaged file aside."""


@sessions.command()
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@data_option
def backup(file: Path, data_dir: Path | None) -> None:
    """Copy all sessions into a new FILE, also while the host runs."""
    from fallback_plugin.agent.store.backup import back_up  # noqa: PLC0415 -- needed here only
    from fallback_plugin.agent.store.folder import DATABASE  # noqa: PLC0415

    back_up(_folder(data_dir) / DATABASE, file)
    click.echo(f"copied to {file}")


@sessions.command("set-aside")
@data_option
def set_aside(data_dir: Path | None) -> None:
    """Rename a damaged file, so that the host begins with an empty one. Nothing is deleted."""
    from fallback_plugin.agent.store import folder as folders  # noqa: PLC0415 -- needed here only

    click.echo(f"set aside as {folders.set_aside(_folder(data_dir))}")


def _folder(data_dir: Path | None) -> Path:
    from fallback_plugin.agent.data_place import default_data_place  # noqa: PLC0415 -- needed here only

    return data_dir or default_data_place(Path.cwd(), os.environ).folder
