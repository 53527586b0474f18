"""``fallback-plugin uninstall``: take the plugin out of a host."""

import os
from collections.abc import Iterator
from pathlib import Path

import click

from fallback_plugin.cli.scope import places_for, scope_options, show
from fallback_plugin.opencode.install import Scope, carry_out, look, plan_uninstall


@click.group()
def uninstall() -> None:
    """Take the plugin out of a host."""


@uninstall.command()
@scope_options
def opencode(scope: Scope, directory: Path, *, dry_run: bool) -> None:
    """Remove the file that OpenCode loads. Settings and what was kept of failures and sessions stay."""
    where = places_for(scope, directory)
    plan = plan_uninstall(where, look(where))
    if not dry_run:
        carry_out(plan)
    show(plan, dry_run=dry_run)
    if scope == "user":
        for folder, what in _kept():
            click.echo(f"stays: {folder}  ({what}; delete it yourself if you wish)")
    if not plan.changes:
        click.echo(f"not installed: {where.bridge}")
    elif dry_run:
        click.echo("dry run: nothing was removed")
    else:
        click.echo("restart OpenCode")


def _kept() -> Iterator[tuple[Path, str]]:
    """Yield the folders in which something was kept for all projects, and what it is."""
    from fallback_plugin.agent.data_place import default_data_folder  # noqa: PLC0415 -- needed here only
    from fallback_plugin.health import default_file  # noqa: PLC0415 -- the same

    state = default_file(os.environ).parent
    names = ("fallback-plugin.log", "health.sqlite3", "decisions.jsonl", "last-good")
    if there := [name for name in names if (state / name).exists()]:
        yield state, ", ".join(there)
    data = default_data_folder(Path.cwd(), os.environ).parent
    if data.is_dir():
        yield data, "the sessions of `fallback-plugin serve`"
