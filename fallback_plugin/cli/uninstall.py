"""``fallback-plugin uninstall``: take the plugin out of a host."""

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
    """Remove the file that OpenCode loads. Settings stay."""
    where = places_for(scope, directory)
    plan = plan_uninstall(where, look(where))
    if not dry_run:
        carry_out(plan)
    show(plan, dry_run=dry_run)
    if not plan.changes:
        click.echo(f"not installed: {where.bridge}")
    elif dry_run:
        click.echo("dry run: nothing was removed")
    else:
        click.echo("restart OpenCode")
