"""Let plugins add commands to the command line, without a running host."""

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from fallback_plugin.errors import PluginLoadError
from fallback_plugin.plugins.discovery import built_in, dropped_in, installed
from fallback_plugin.plugins.registry import Registry

if TYPE_CHECKING:
    from click import Group


def register_commands(
    commands: "Group", *, dirs: Sequence[Path] = (), block: Collection[str] = ()
) -> tuple[PluginLoadError, ...]:
    """Load plugins and ask each of them to add its commands; return what went wrong.

    Plugins loaded first come last, so that a name added twice stays with the plugin loaded first.
    """
    registry = Registry()
    errors = [
        *registry.load(built_in(), block=block),
        *registry.load(installed(), block=block),
        *registry.load(dropped_in(dirs), block=block),
    ]
    for implementation in registry.implementations("register_commands"):
        try:
            implementation.function(*implementation.positional({"commands": commands}))
        except (Exception, SystemExit) as error:  # noqa: BLE001 -- foreign code may raise anything
            plugin = implementation.plugin
            problem = PluginLoadError(
                f"plugin {plugin.name!r} ({plugin.origin}) cannot add its commands: {error!r}"
            )
            problem.__cause__ = error
            errors.append(problem)
    return tuple(errors)
