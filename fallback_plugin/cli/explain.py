"""``fallback-plugin explain``: why a session went to another model."""

import json
import os
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import click

from fallback_plugin.cli.settings_in_force import config_option, settings_in_force


@click.command()
@click.argument("session", required=False)
@click.option(
    "--all", "everything", is_flag=True, help="Explain every answer that is kept, not only the last."
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object a decision instead of text.")
@config_option
def explain(session: str | None, *, everything: bool, as_json: bool, config_file: Path | None) -> None:
    """Say why the last switch of SESSION happened; by default of the session that had one last."""
    from fallback_plugin.fallback.decisions import (  # noqa: PLC0415 -- pydantic, needed here only
        beside,
        last_answers,
        read_decisions,
    )
    from fallback_plugin.health import default_file  # noqa: PLC0415 -- the same

    file = beside(settings_in_force(config_file).health.file or default_file(os.environ))
    answers = last_answers(list(read_decisions(file)), session)
    if not answers:
        of = f" of session {session}" if session else ""
        click.echo(f"no failure{of} has been answered yet, as far as {file} tells")
        return
    for answer in answers if everything else answers[-1:]:
        if as_json:
            for decision in answer:
                click.echo(json.dumps(decision, ensure_ascii=False))
        else:
            click.echo("\n".join(_lines(answer)))


def _lines(answer: Sequence[Mapping[str, Any]]) -> list[str]:
    """Put an answer into words: the failure, the candidates, and what came of it."""
    first, *rest = answer
    why = first.get("why") or {}
    lines = [f"{_clock(first['at'])}  session {first['session']}: {_headline(first, why)}"]
    if why:
        lines += [
            f"  failed:      {why['failed']}",
            f"  because:     {_cause(why)}",
            f"  seen as:     {why['sign'] or 'the failure of the last model left'}",
            f"  rule:        {why['rule'] or 'none: nobody knows this failure'}",
            f"  closes:      {why['scope']}",
            *(f"  passed over: {each['model']}: {_obstacle(each)}" for each in why["passed_over"]),
            f"  taken:       {why['taken'] or 'nothing: no candidate was left'}",
        ]
    return [*lines, *(f"  then {_clock(d['at'])}:  {d['decision']} ({d['reason']})" for d in rest)]


def _headline(first: Mapping[str, Any], why: Mapping[str, Any]) -> str:
    match first["decision"]:
        case "retry":
            return f"{why.get('failed')} was asked once more"
        case "exhausted":
            return "no model was left"
    return f"{why.get('failed')} → {why.get('taken')}"


def _cause(why: Mapping[str, Any]) -> str:
    status = f" (status {why['http_status']})" if why["http_status"] else ""
    wait = f", told to wait {why['retry_after_s']:g} s" if why["retry_after_s"] else ""
    return f"{why['kind']}{status}{wait}"


def _obstacle(passed: Mapping[str, Any]) -> str:
    return f"{passed['reason']} until {_clock(passed['until'])}" if passed["until"] else str(passed["reason"])


def _clock(at: float) -> str:
    return datetime.fromtimestamp(at).astimezone().strftime("%Y-%m-%d %H:%M:%S")
