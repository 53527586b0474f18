"""``fallback-plugin install``: put the plugin into a host."""

import sys
from pathlib import Path

import click

from fallback_plugin.cli.scope import places_for, scope_options, show
from fallback_plugin.opencode.host_version import SUPPORTED, is_supported, version_on_path
from fallback_plugin.opencode.install import (
    Places,
    Plan,
    Scope,
    bridge_text,
    carry_out,
    look,
    plan_install,
    starter_text,
)


@click.group()
def install() -> None:
    """Put the plugin into a host."""


@install.command()
@scope_options
def opencode(scope: Scope, directory: Path, *, dry_run: bool) -> None:
    """Let OpenCode 1.x load the plugin, and write settings to start with if there are none."""
    where = places_for(scope, directory)
    plan = plan_install(where, look(where), bridge=bridge_text(sys.executable), starter=starter_text())
    if not dry_run:
        carry_out(plan)
    show(plan, dry_run=dry_run)
    version = version_on_path()
    if version is not None and not is_supported(version):
        click.echo(
            f"warning: the opencode on your PATH is version {version}; this plugin works with {SUPPORTED}, "
            "and OpenCode 2 does not load it",
            err=True,
        )
    click.echo()
    if not plan.changes:
        click.echo("already up to date")
    elif dry_run:
        click.echo("dry run: nothing was written")
    else:
        _show_next(where, plan, scope)


def _show_next(where: Places, plan: Plan, scope: Scope) -> None:
    steps = ["fallback-plugin config check", "restart OpenCode"]
    if any(action.kind == "create" and action.path == where.settings for action in plan.actions):
        steps.insert(0, f"put your models into {where.settings}")
    if scope == "project":
        steps.append(f"keep {where.bridge.name} out of version control: it names the Python of this machine")
    click.echo("next:")
    for number, step in enumerate(steps, 1):
        click.echo(f"  {number}. {step}")
