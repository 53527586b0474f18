"""``fallback-plugin classify``: what a failure is, and what follows it."""

import json
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fallback_plugin.cli.settings_in_force import config_option, settings_as_written

if TYPE_CHECKING:
    from fallback_plugin.fallback.judgement import Judgement


def _moment(_: click.Context, __: click.Parameter, value: str | None) -> float | None:
    if value is None:
        return None
    try:
        return _seconds(value)
    except ValueError:
        raise click.BadParameter(
            f"{value!r} is no time; write 2026-08-20T10:00:00Z or seconds since the epoch"
        ) from None


def _seconds(value: object) -> float:
    """Read a time: seconds since the epoch, or ISO with a zone.

    Raises:
        ValueError: if it is neither.
    """
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    text = str(value)
    try:
        return float(text)
    except ValueError:
        moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        raise ValueError("a time needs a zone")
    return moment.timestamp()


class _BadLineError(ValueError):
    """A line that holds nothing to judge."""


@click.command()
@click.option("--jsonl", is_flag=True, help="Read JSON lines in place of one text.")
@click.option("--provider", metavar="ID", help="The provider whose model failed, where a line names none.")
@click.option("--now", metavar="TIME", callback=_moment, help="The time to work reset times out for.")
@config_option
@click.pass_context
def classify(
    context: click.Context,
    *,
    jsonl: bool,
    provider: str | None,
    now: float | None,
    config_file: Path | None,
) -> None:
    """Say what the error on standard input is, and what follows it."""
    from fallback_plugin.fallback.judgement import judge  # noqa: PLC0415 -- pydantic, needed here only

    settings = settings_as_written(config_file)
    all_read = True
    for number, line in enumerate(_lines(jsonl=jsonl), 1):
        if jsonl and not line.strip():
            continue
        try:
            report = _report(line) if jsonl else {"error": {"text": line.strip()}}
            when = _seconds(report["now"]) if report.get("now") is not None else now
        except ValueError as error:
            click.echo(f"error: line {number}: {error}", err=True)
            all_read = False
            continue
        of = report.get("provider")
        found = judge(
            report["error"],
            time.time() if when is None else when,
            provider=of if isinstance(of, str) else provider,
            settings=settings,
        )
        click.echo(json.dumps(_answer(report, found), ensure_ascii=False))
        sys.stdout.flush()
    context.exit(0 if all_read else 1)


def _lines(*, jsonl: bool) -> Iterator[str]:
    """Yield what is to be judged: each line, or all of the input. What is no UTF-8 is replaced."""
    raw = sys.stdin.buffer
    yield from (line.decode(errors="replace") for line in (raw if jsonl else [raw.read()]))


def _report(line: str) -> Mapping[str, Any]:
    """Read a line.

    Raises:
        _BadLineError: if it is no JSON object with an error in it.
    """
    try:
        report = json.loads(line)
    except (ValueError, RecursionError):
        raise _BadLineError("this is no JSON; write one object a line") from None
    if not isinstance(report, Mapping):
        raise _BadLineError('this is no object; write {"error": …}')
    error = report.get("error")
    if isinstance(error, str):
        return {**report, "error": {"text": error}}
    if not isinstance(error, Mapping):
        raise _BadLineError('this names no error; write {"error": {"text": "…"}} or the host\'s own object')
    return report


def _answer(report: Mapping[str, Any], found: "Judgement") -> dict[str, Any]:
    said = asdict(found)
    return {"id": report.get("id"), **said}
