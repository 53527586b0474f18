"""``fallback-plugin health``: what is left alone until when, and how to end that."""

import json
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from fallback_plugin.cli.settings_in_force import config_option, settings_in_force

if TYPE_CHECKING:
    from fallback_plugin.health import HealthStore
    from fallback_plugin.health.closure import Closure
    from fallback_plugin.health.scope import Key

_SERVER_TIMEOUT_S: Final = 5.0
_WHAT_TO_NAME: Final = "name a model or a provider, or everything with --all"
_HEADINGS: Final = ("what", "reason", "state", "left", "until", "failures", "probe")


@click.group(invoke_without_command=True)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON list instead of text.")
@config_option
@click.pass_context
def health(context: click.Context, *, as_json: bool, config_file: Path | None) -> None:
    """Show what is left alone, why and until when."""
    context.obj = config_file
    if context.invoked_subcommand is not None:
        return
    now = time.time()
    with _opened(config_file) as store:
        entries = store.view(now).entries()
        if as_json:
            click.echo(json.dumps([_plain(key, record, now) for key, record in entries], indent=2))
        elif entries:
            click.echo("\n".join(_table([_HEADINGS, *(_row(key, record, now) for key, record in entries)])))
        else:
            click.echo("nothing is closed")


@health.command()
@click.argument("model", required=False)
@click.option("--all", "everything", is_flag=True, help="Forget everything that is closed.")
@click.pass_context
def clear(context: click.Context, model: str | None, *, everything: bool) -> None:
    """Forget what closes MODEL, a provider/model[:variant], or what is closed of a provider.

    It may be asked again at once, also by sessions in which it failed. Without MODEL and --all this is an
    error that lists what could be named, and so it is where MODEL is none of what is closed.
    """
    if everything and model is not None:
        raise click.UsageError(f"{_WHAT_TO_NAME}, not both")
    if not model and not everything:
        with _opened(context.obj) as store:
            known = [key for key, _ in store.view(time.time()).entries()]
        raise click.UsageError("\n".join([_WHAT_TO_NAME, *_commands(known)]))
    with _opened(context.obj) as store:
        known = [key for key, _ in store.view(time.time()).entries()]
        closing = known if model is None else _closing(model, known)
        if known and not closing:
            nothing = f'nothing is closed under "{_printable(str(model))}"'
            raise click.UsageError("\n".join([nothing, *_commands(known)]))
        store.clear(closing)
        for key in closing:
            click.echo(f"cleared {_shown(key)}")
        if not closing:
            click.echo("nothing to clear: nothing is closed" + (f' under "{model}"' if model else ""))


@contextmanager
def _opened(config_file: Path | None) -> Iterator["HealthStore"]:
    """Open the store that the settings name; say at the end what is wrong with it, with exit status 1."""
    from fallback_plugin.health.opening import open_health  # noqa: PLC0415 -- pydantic, needed here only

    troubles: list[str] = []
    store = open_health(settings_in_force(config_file).health, os.environ, on_trouble=troubles.append)
    store.settle(_SERVER_TIMEOUT_S)
    try:
        yield store
    finally:
        store.shut()
    for trouble in troubles:
        click.echo(f"error: {trouble}", err=True)
    if troubles:
        click.get_current_context().exit(1)


def _closing(model: str, known: Sequence["Key"]) -> list["Key"]:
    """Return what closes a model, or for the name of a provider all that is closed of it."""
    from fallback_plugin.health.scope import keys_of  # noqa: PLC0415 -- as above
    from fallback_plugin.model_ref import ModelRef  # noqa: PLC0415 -- as above

    if "/" not in model:
        return [key for key in known if key.provider == model]
    # A variant of no well-known name reads like a part of the model's.
    own = [ModelRef(key.provider, key.name, key.variant or None) for key in known if key.scope == "model"]
    named = next((each for each in own if str(each) == model), None) or ModelRef.parse(model)
    return [key for key in known if key in keys_of(named)]


def _commands(known: Sequence["Key"]) -> list[str]:
    """Return the commands that clear what is closed, below a line that introduces them."""
    if not known:
        return ["nothing is closed now"]
    of = (_shown(key) if key.scope == "model" else _printable(key.provider) for key in known)
    named = dict.fromkeys(of)
    write = "fallback-plugin health clear"
    return [
        "what is closed now is cleared by",
        *(f"  {write} {each}" for each in named),
        f"  {write} --all",
    ]


def _shown(key: "Key") -> str:
    """Return what a key closes, in words and without signs that a terminal would obey."""
    match key.scope:
        case "model":
            text = f"{key.provider}/{key.name}" + (f":{key.variant}" if key.variant else "")
        case "upstream":
            text = f"{key.provider}/{key.name}{'*' if key.name.endswith('/') else ':*'} (upstream)"
        case _:
            text = f"{key.provider}/* ({key.scope})"
    return _printable(text)


def _printable(text: str) -> str:
    return text if text.isprintable() else text.encode("unicode_escape").decode()


def _row(key: "Key", record: "Closure", now: float) -> tuple[str, ...]:
    half_open = now >= record.until
    probe = record.probe if half_open and record.probe and now < record.probe.until else None
    return (
        _shown(key),
        record.reason,
        "half-open" if half_open else "closed",
        "" if half_open else _duration(record.until - now),
        datetime.fromtimestamp(record.until, UTC).astimezone().isoformat(" ", "seconds"),
        str(record.failures),
        f"by {probe.holder} for {_duration(probe.until - now)}" if probe else "",
    )


def _plain(key: "Key", record: "Closure", now: float) -> dict[str, Any]:
    probe = record.probe
    return {
        "scope": key.scope,
        "provider": key.provider,
        "name": key.name,
        "variant": key.variant or None,
        "closes": _shown(key),
        "state": "closed" if now < record.until else "half-open",
        "reason": record.reason,
        "until": record.until,
        "left_s": max(0.0, round(record.until - now, 3)),
        "failures": record.failures,
        "closed_at": record.closed_at,
        "probe": {"holder": probe.holder, "until": probe.until} if probe and now < probe.until else None,
    }


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours}h {minutes:02}min"
    return f"{minutes}min {rest:02}s" if minutes else f"{rest}s"


def _table(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    ]
