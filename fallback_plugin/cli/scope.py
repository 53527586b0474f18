"""What installing and uninstalling have in common: the options, and how a plan is shown."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TypeVar

import click

from fallback_plugin.opencode.install import Places, Plan, Scope, places

_Command = TypeVar("_Command", bound=Callable[..., Any])

_DONE: Final = {"create": "created", "update": "updated", "remove": "removed", "keep": "kept"}
_WOULD: Final = {
    "create": "would create",
    "update": "would update",
    "remove": "would remove",
    "keep": "keeps",
}


def scope_options(command: _Command) -> _Command:
    """Add ``--user``, ``--project``, ``--directory`` and ``--dry-run``."""
    for option in (
        click.option("--dry-run", is_flag=True, help="Show what would be done, and do nothing."),
        click.option(
            "--directory",
            type=click.Path(exists=True, file_okay=False, path_type=Path),
            default=Path(),
            help="The project folder; by default the current one.",
        ),
        click.option("--project", "scope", flag_value="project", help="For one project, in its .opencode."),
        click.option(
            "--user", "scope", flag_value="user", default="user", help="For all projects (the default)."
        ),
    ):
        command = option(command)
    return command


def places_for(scope: Scope, directory: Path) -> Places:
    """Return the places for the options a person gave."""
    return places(scope, directory=directory, environ=os.environ)


def show(plan: Plan, *, dry_run: bool) -> None:
    """Print each thing done or left as it is, then the warnings."""
    verbs = _WOULD if dry_run else _DONE
    width = max((len(verbs[action.kind]) for action in plan.actions), default=0)
    for action in plan.actions:
        click.echo(f"{verbs[action.kind]:<{width}}  {action.path}  ({action.reason})")
    for warning in plan.warnings:
        click.echo(f"warning: {warning}", err=True)
