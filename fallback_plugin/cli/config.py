"""``fallback-plugin config``: check the settings files, explain where each value comes from."""

import json
import os
from dataclasses import asdict
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from fallback_plugin.errors import SettingsError

if TYPE_CHECKING:
    from fallback_plugin.settings import LoadedSettings, Origin, Settings

_directory = click.option(
    "--directory",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    default=Path(),
    help="The project folder; by default the current one.",
)
_NO_CHAIN: Final = "no fallback; set fallback_models under [fallback]"
_UNCHECKED: Final = (
    "not checked: whether the models exist; chains in opencode.json, which OpenCode hands over when it runs"
)
_as_json = click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of text.")


@click.group()
def config() -> None:
    """Look at the settings: are they right, and where do they come from?"""


@config.command()
@_directory
@_as_json
@click.pass_context
def check(context: click.Context, directory: Path, *, as_json: bool) -> None:
    """Read all settings; print the chains, or what is wrong and where (exit status 1)."""
    loaded = _loaded(context, directory, as_json=as_json)
    chains = _chains(loaded.settings)
    if as_json:
        _print_json(
            {
                "ok": True,
                "files": [str(file) for file in loaded.files],
                "warnings": loaded.warnings,
                "chains": chains,
            }
        )
        return
    for file in loaded.files:
        click.echo(f"read {file}")
    if not loaded.files:
        click.echo("no settings file found; looked for:")
        for file in loaded.watched:
            click.echo(f"  {file}")
    for warning in loaded.warnings:
        click.echo(f"warning: {warning}", err=True)
    for name, chain in chains.items():
        click.echo(f"{name}: {' → '.join(chain) or _NO_CHAIN}")
    click.echo(_UNCHECKED)


@config.command()
@click.argument("key", required=False)
@_directory
@_as_json
@click.pass_context
def explain(context: click.Context, key: str | None, directory: Path, *, as_json: bool) -> None:
    """Print each setting, or those under KEY, with its value and where it comes from."""
    from fallback_plugin.settings.explain import explained  # noqa: PLC0415 -- pydantic, needed here only

    loaded = _loaded(context, directory, as_json=as_json)
    everything = explained(loaded)
    chosen = [one for one in everything if key is None or one.is_under(key)]
    if not chosen:
        near = get_close_matches(key or "", [one.key for one in everything], n=1)
        hint = f"did you mean {near[0]}?" if near else "run `config explain` to see all keys"
        raise click.BadParameter(f"{key!r} is not set and not a setting; {hint}", param_hint="KEY")
    if as_json:
        _print_json({one.key: {"value": one.value, **_origin(one.origin)} for one in chosen})
        return
    for one in chosen:
        value = "(not set)" if one.value is None else json.dumps(one.value, ensure_ascii=False)
        click.echo(f"{one.key} = {value}  # {one.origin}")


@config.command()
def schema() -> None:
    """Print the JSON schema of the settings, for an editor."""
    from fallback_plugin.settings.schema import schema_text  # noqa: PLC0415 -- pydantic, needed here only

    click.echo(schema_text(), nl=False)


def _loaded(context: click.Context, directory: Path, *, as_json: bool) -> "LoadedSettings":
    """Return the settings, or print what is wrong and leave with exit status 1."""
    from fallback_plugin.settings import load_and_keep  # noqa: PLC0415 -- pydantic, needed here only

    try:
        return load_and_keep(directory=directory.resolve(), environ=os.environ)
    except SettingsError as error:
        if as_json:
            _print_json({"ok": False, "errors": str(error).splitlines()})
        else:
            click.echo(str(error), err=True)
        context.exit(1)


def _chains(settings: "Settings") -> dict[str, list[str]]:
    """Return the chain of each agent that is named, under ``default`` that of all the others."""
    from fallback_plugin.fallback.chain import chain_for  # noqa: PLC0415 -- pydantic, needed here only

    chains = {"default": chain_for(settings, None)}
    chains |= {f"agent {name}": chain_for(settings, name) for name in settings.agents}
    return {name: [str(model) for model in chain] for name, chain in chains.items()}


def _origin(origin: "Origin") -> dict[str, object]:
    return {name: value for name, value in asdict(origin).items() if value is not None}


def _print_json(value: object) -> None:
    click.echo(json.dumps(value, ensure_ascii=False, indent=2, default=str))
