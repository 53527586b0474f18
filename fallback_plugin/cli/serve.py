"""``fallback-plugin serve``: our own agent host."""

import os
from pathlib import Path
from typing import Final

import click

from fallback_plugin.agent.secrets import SERVER_PASSWORD
from fallback_plugin.cli.settings_in_force import config_option, settings_in_force
from fallback_plugin.errors import InstallError
from fallback_plugin.extras import how_to_add
from fallback_plugin.service_log import write_log_to_stderr

USER: Final = "OPENCODE_SERVER_USERNAME"
"""The environment variable that OpenCode's own server reads, beside that of the password."""

_LARGEST_PORT: Final = 65_535


@click.command()
@click.option(
    "--port",
    metavar="PORT",
    type=click.IntRange(0, _LARGEST_PORT),
    default=4096,
    show_default=True,
    help="Where to listen; 0 takes a free port.",
)
@click.option(
    "--host",
    metavar="ADDRESS",
    default="127.0.0.1",
    show_default=True,
    help=f"The address to listen at. Another than this machine's own needs a password in {SERVER_PASSWORD}.",
)
@click.option(
    "--data-dir",
    metavar="DIR",
    type=click.Path(path_type=Path, file_okay=False),
    help="Where sessions are kept; by default a folder of this project's in the user's data folder.",
)
@config_option
def serve(*, port: int, host: str, data_dir: Path | None, config_file: Path | None) -> None:
    """Serve coding sessions of this folder over an HTTP API that is OpenCode's.

    Models come from [providers] in the settings. Where a model fails, the turn goes on with the next one of
    its chain.
    """
    settings = settings_in_force(config_file)
    write_log_to_stderr(settings.log.level)
    try:
        # Heavy, and an extra: of no use to a command line that makes no sense.
        from fallback_plugin.agent.data_place import DataPlace, default_data_place  # noqa: PLC0415
        from fallback_plugin.agent.host import Place  # noqa: PLC0415
        from fallback_plugin.agent.http.guard import Rules  # noqa: PLC0415
        from fallback_plugin.agent.http.server import is_loopback, listening, url_of  # noqa: PLC0415
        from fallback_plugin.agent.providers.registry import way_problem  # noqa: PLC0415
        from fallback_plugin.agent.serving import Service  # noqa: PLC0415
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        raise InstallError(f"{package} is not installed, which serve needs: {how_to_add('serve')}") from error

    for provider, table in settings.providers.items():
        if table.base_url and (problem := way_problem(table.base_url)):
            click.echo(f"warning: the models of {provider} cannot be reached: {problem}", err=True)
    password = os.environ.get(SERVER_PASSWORD) or None
    if password is None and not is_loopback(host):
        raise click.UsageError(
            f"anybody could reach {host}: put a password into {SERVER_PASSWORD}, or listen at 127.0.0.1"
        )
    directory = Path.cwd()
    data = DataPlace(data_dir) if data_dir else default_data_place(directory, os.environ, create=True)
    for notice in data.notices:
        click.echo(notice, err=True)
    with listening(host, port) as listener:
        url = url_of(listener)
        service = Service(
            place=Place(
                data=data.folder,
                directory=directory,
                environ=os.environ,
            ),
            settings_file=config_file.absolute() if config_file else None,
            listener=listener,
            rules=Rules(
                password=password,
                user=os.environ.get(USER) or "opencode",
                host_names=frozenset({host.lower()}),
            ),
            ready=lambda: click.echo(f"fallback-plugin server listening on {url}"),
        )
        service.run()
