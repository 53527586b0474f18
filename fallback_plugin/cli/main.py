"""The command ``fallback-plugin``: finds a command when it is asked for, and says errors in one line."""

import os
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, Final, cast

import click

from fallback_plugin import __version__
from fallback_plugin.errors import FallbackPluginError

COMMANDS: Final[Mapping[str, str]] = {
    "attach": "fallback_plugin.cli.attach:attach",
    "bridge": "fallback_plugin.cli.bridge:bridge",
    "classify": "fallback_plugin.cli.classify:classify",
    "config": "fallback_plugin.cli.config:config",
    "explain": "fallback_plugin.cli.explain:explain",
    "health": "fallback_plugin.cli.health:health",
    "install": "fallback_plugin.cli.install:install",
    "serve": "fallback_plugin.cli.serve:serve",
    "sessions": "fallback_plugin.cli.sessions:sessions",
    "simulate": "fallback_plugin.cli.simulate:simulate",
    "uninstall": "fallback_plugin.cli.uninstall:uninstall",
}
"""Where each built-in command lives, as ``module:attribute``."""

_PLUGIN_COMMANDS: Final = f"{__name__}.plugins"


class LazyGroup(click.Group):
    """A group whose built-in commands are imported, and whose plugins are asked, only when needed."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the built-in commands and behind them those of plugins."""
        added = _from_plugins(ctx).list_commands(ctx)
        return [*COMMANDS, *(name for name in added if name not in COMMANDS)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return a command. A plugin cannot take the name of a built-in one."""
        home = COMMANDS.get(cmd_name)
        if home is None:
            return _from_plugins(ctx).get_command(ctx, cmd_name)
        module, _, attribute = home.partition(":")
        command: click.Command = getattr(import_module(module), attribute)
        return command

    def invoke(self, ctx: click.Context) -> Any:  # noqa: ANN401 -- whatever the command returns
        """Run the command; say an error of ours in one line and leave with exit status 1."""
        try:
            return super().invoke(ctx)
        except FallbackPluginError as error:
            click.echo(f"error: {error}", err=True)
            ctx.exit(1)


def _from_plugins(ctx: click.Context) -> click.Group:
    """Return the commands that plugins add, asking them once an invocation."""
    group = ctx.meta.get(_PLUGIN_COMMANDS)
    if group is None:
        group = ctx.meta[_PLUGIN_COMMANDS] = _ask_plugins()
    return cast("click.Group", group)


def _ask_plugins() -> click.Group:
    """Let plugins add their commands. One that fails, or settings that do, are a warning."""
    from fallback_plugin.plugins.commands import register_commands  # noqa: PLC0415 -- loads plugins
    from fallback_plugin.settings import load_settings  # noqa: PLC0415 -- pydantic, needed here only

    group = click.Group("plugins")
    try:
        plugins = load_settings(directory=Path.cwd(), environ=os.environ).settings.plugins
    except FallbackPluginError as error:
        # What is blocked is unknown now, so nothing is loaded.
        click.echo(f"warning: no commands of plugins, the settings are broken: {error}", err=True)
        return group
    for problem in register_commands(group, dirs=plugins.dirs, block=plugins.block):
        click.echo(f"warning: {problem}", err=True)
    return group


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="fallback-plugin")
def command_line() -> None:
    """Keep a coding agent's session working when its model fails."""


def main() -> None:
    """Run the command line."""
    command_line(prog_name="fallback-plugin")
