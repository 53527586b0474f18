"""``fallback-plugin simulate``: a recording of a host, played through the engine without a network."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from fallback_plugin.cli.settings_in_force import config_option, settings_in_force

if TYPE_CHECKING:
    from fallback_plugin.fallback.simulation import Step


@click.command()
@click.argument("trace", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object a step instead of text.")
@config_option
def simulate(trace: Path, *, as_json: bool, config_file: Path | None) -> None:
    """Play the recording TRACE and print what would be done, when and why."""
    from fallback_plugin.fallback.simulation import read_trace, simulate  # noqa: PLC0415 -- pydantic

    settings = settings_in_force(config_file)
    moments = list(read_trace(trace.read_text(encoding="utf-8", errors="replace").splitlines()))
    steps = list(simulate(moments, settings))
    for step in steps:
        if as_json:
            click.echo(json.dumps(asdict(step), ensure_ascii=False))
        else:
            click.echo(_line(step))
    if not as_json:
        click.echo(_end(steps, len(moments)))


def _line(step: "Step") -> str:
    where = f"{step.trace}: " if step.trace else ""
    why = f"  ({step.reason})" if step.reason else ""
    return f"{step.at:>9.3f} s  {where}{step.session}  {step.effect}{why}"


def _end(steps: Sequence["Step"], events: int) -> str:
    prompts = [step.effect for step in steps if step.effect.startswith("run ")]
    if prompts:
        return f"{events} events: {len(prompts)} time(s) another try; last: {prompts[-1]}"
    decided = next((step for step in reversed(steps) if step.effect.startswith("decide: ")), None)
    said = f"{decided.effect.removeprefix('decide: ')} ({decided.reason})" if decided else "nothing failed"
    return f"{events} events: nothing is sent: {said}"
