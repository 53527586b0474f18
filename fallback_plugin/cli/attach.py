"""``fallback-plugin attach``: look after OpenCode servers over HTTP."""

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from fallback_plugin.cli.settings_in_force import config_option, settings_in_force
from fallback_plugin.service_log import write_log_to_stderr

if TYPE_CHECKING:
    from fallback_plugin.attach.target import Target

_LARGEST_PORT: Final = 65_535


@click.command()
@click.argument("urls", metavar="URL...", nargs=-1, required=True)
@click.option(
    "--password-env",
    metavar="NAME",
    help="The environment variable that holds the password of servers whose URL holds none.",
)
@config_option
@click.option(
    "--directory",
    "directories",
    metavar="DIR",
    multiple=True,
    help="A project folder on the server, as often as you like; by default the server's own.",
)
@click.option("--all-directories", is_flag=True, help="Every folder somebody works in on the server.")
@click.option(
    "--metrics",
    "metrics_port",
    metavar="PORT",
    type=click.IntRange(0, _LARGEST_PORT),
    help="Serve figures for Prometheus on this port of 127.0.0.1; 0 takes a free one.",
)
def attach(
    urls: tuple[str, ...],
    *,
    password_env: str | None,
    config_file: Path | None,
    directories: tuple[str, ...],
    all_directories: bool,
    metrics_port: int | None,
) -> None:
    """Keep the sessions of running OpenCode servers working, from outside.

    A URL is http://HOST:PORT, with a user and a password in it if the server asks for them.
    """
    if directories and all_directories:
        raise click.UsageError("name folders, or take all of them with --all-directories")
    targets = _targets(urls, password_env)
    write_log_to_stderr(settings_in_force(config_file).log.level)

    # Heavy, and of no use to a command line that makes no sense.
    from fallback_plugin.attach.folder import SettingsPlace  # noqa: PLC0415
    from fallback_plugin.attach.server import Folders  # noqa: PLC0415
    from fallback_plugin.attach.service import Service  # noqa: PLC0415

    service = Service(
        targets=targets,
        folders=Folders(tuple(dict.fromkeys(directories)), everywhere=all_directories),
        settings=SettingsPlace(os.environ, Path.cwd(), config_file.absolute() if config_file else None),
        metrics_port=metrics_port,
    )
    try:
        status = service.run()
    except OSError as error:
        click.echo(f"error: the figures cannot be served at port {metrics_port}: {error}", err=True)
        status = 1
    sys.exit(status)


def _targets(urls: tuple[str, ...], password_env: str | None) -> list["Target"]:
    from fallback_plugin.attach.target import read_target  # noqa: PLC0415 -- HTTP, needed here only

    password = None
    if password_env is not None:
        password = os.environ.get(password_env)
        if not password:
            raise click.UsageError(f"the environment variable {password_env} holds no password")
    targets: dict[str, Target] = {}
    for number, url in enumerate(urls, 1):
        try:
            target = read_target(url, password)
        except ValueError as error:
            raise click.UsageError(f"URL number {number}: {error}") from None
        targets.setdefault(target.url, target)
    return list(targets.values())
