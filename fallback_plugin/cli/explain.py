"""``fallback-plugin explain``: why a session went to another model."""

import json
import os
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Final, NoReturn

import click

from fallback_plugin.cli.printable import printable
from fallback_plugin.cli.settings_in_force import config_option, settings_in_force

MOST_SHOWN: Final = 5
"""Sessions that are named to somebody who asks for one that nobody knows."""


@click.command()
@click.argument("session", required=False)
@click.option(
    "--all", "everything", is_flag=True, help="Explain every answer that is kept, not only the last."
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object a decision instead of text.")
@config_option
def explain(session: str | None, *, everything: bool, as_json: bool, config_file: Path | None) -> None:
    """Say why the last switch of SESSION happened; by default of the session that had one last.

    The beginning of a session's id will do, where it fits one session only.
    """
    from fallback_plugin.fallback.decisions import (  # noqa: PLC0415 -- pydantic, needed here only
        beside,
        last_answers,
        read_decisions,
    )
    from fallback_plugin.health import default_file  # noqa: PLC0415 -- the same

    file = beside(settings_in_force(config_file).health.file or default_file(os.environ))
    try:
        decisions = list(read_decisions(file))
    except OSError as error:
        click.echo(f"error: {file}: it cannot be read ({error.strerror or error})", err=True)
        click.get_current_context().exit(1)
    if session is not None:
        session = _whole_id(session, decisions, file)
    answers = last_answers(decisions, session)
    if not answers:
        of = f" of session {printable(session)}" if session else ""
        click.echo(f"no failure{of} has been answered yet, as far as {file} tells")
        return
    for answer in answers if everything else answers[-1:]:
        for line in map(json.dumps, answer) if as_json else _lines(answer):
            click.echo(printable(line))


def _whole_id(given: str, decisions: Sequence[Mapping[str, Any]], file: Path) -> str:
    """Return the id of the session that is meant; the command ends where that is none, or one of several."""
    latest_first: list[str] = list(dict.fromkeys(each["session"] for each in reversed(decisions)))
    found = [each for each in latest_first if each == given] or [
        each for each in latest_first if given and each.startswith(given)
    ]
    if len(found) != 1:
        _end_unknown(given, found, latest_first, file)
    return found[0]


def _end_unknown(given: str, found: Sequence[str], latest_first: Sequence[str], file: Path) -> NoReturn:
    shown = found or latest_first
    listed = ", ".join(shown[:MOST_SHOWN]) + (", …" if len(shown) > MOST_SHOWN else "")
    if found:
        problem = f"{given!r} is the beginning of several sessions: {listed}"
    else:
        known = f"the latest ones are {listed}" if listed else "it knows of none yet"
        problem = f"{file} knows of no session {given!r}; {known}"
    click.echo(printable(f"error: {problem}"), err=True)
    click.get_current_context().exit(1)


def _lines(answer: Sequence[Mapping[str, Any]]) -> list[str]:
    """Put an answer into words: the failure, the candidates, and what came of it."""
    first, *rest = answer
    why = first.get("why") or {}
    label = "no answer:  " if first["decision"] == "exhausted" else "passed over:"
    lines = [f"{_clock(first['at'])}  session {first['session']}: {_headline(first, why)}"]
    if why:
        lines += [
            f"  failed:      {why['failed']}",
            f"  because:     {_cause(why)}",
            f"  seen as:     {why['sign'] or 'the failure of the last model left'}",
            f"  rule:        {why['rule'] or 'none: nobody knows this failure'}",
            f"  closes:      {why['scope'] or 'nothing'}",
            *dict.fromkeys(f"  {label} {each['model']}: {_obstacle(each)}" for each in why["passed_over"]),
            f"  taken:       {why['taken'] or 'nothing: no candidate was left'}",
        ]
    return [*lines, *map(_later, rest)]


def _later(decision: Mapping[str, Any]) -> str:
    if decision["decision"] == "not inline":
        return f"  not inline:  {decision['reason']}"
    return f"  then {_clock(decision['at'])}:  {decision['decision']} ({decision['reason']})"


def _headline(first: Mapping[str, Any], why: Mapping[str, Any]) -> str:
    decision = first["decision"]
    if decision == "exhausted":
        return "no model was left"
    if not why:
        return f"{decision}; the reason was too long to keep"
    return (
        f"{why['failed']} was asked once more" if decision == "retry" else f"{why['failed']} → {why['taken']}"
    )


def _cause(why: Mapping[str, Any]) -> str:
    wait = f", told to wait {why['retry_after_s']:g} s" if why["retry_after_s"] else ""
    status = f" (status {why['http_status']})" if why["http_status"] else ""
    return f"{why['kind']}{status}{wait}"


def _obstacle(passed: Mapping[str, Any]) -> str:
    return f"{passed['reason']} until {_clock(passed['until'])}" if passed["until"] else str(passed["reason"])


def _clock(at: float) -> str:
    return datetime.fromtimestamp(at).astimezone().strftime("%Y-%m-%d %H:%M:%S")
