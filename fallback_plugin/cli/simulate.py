"""``fallback-plugin simulate``: a recording of a host, played through the engine without a network."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from fallback_plugin.cli.printable import printable
from fallback_plugin.cli.settings_in_force import config_option, settings_as_written

if TYPE_CHECKING:
    from fallback_plugin.fallback.simulation import Ending, Step


@click.command()
@click.argument("trace", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object a step instead of text.")
@config_option
def simulate(trace: Path, *, as_json: bool, config_file: Path | None) -> None:
    """Play the recording TRACE and print what would be done, when and why, and what it came to."""
    from fallback_plugin.fallback.simulation import Step, simulate  # noqa: PLC0415 -- pydantic
    from fallback_plugin.fallback.trace import read_trace  # noqa: PLC0415 -- the same

    settings = settings_as_written(config_file)
    with trace.open(encoding="utf-8", errors="replace") as lines:
        moments = list(read_trace(lines))
    for told in simulate(moments, settings):
        if as_json:
            click.echo(json.dumps(asdict(told)))
        else:
            click.echo(printable(_step(told) if isinstance(told, Step) else _ending(told)))


def _step(step: "Step") -> str:
    where = f"{step.trace}: " if step.trace else ""
    why = f"  ({step.reason})" if step.reason else ""
    return f"{step.at:>9.3f} s  {where}{step.session}  {step.effect}{why}"


def _ending(ending: "Ending") -> str:
    where = " ".join(f"{name}:" for name in (ending.trace, ending.session) if name)
    return f"{where} {ending.outcome} ({ending.reason})".lstrip()
