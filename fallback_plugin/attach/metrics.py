"""What is counted, and how a Prometheus server reads it."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"

_DECISIONS: Final[Mapping[str, str]] = {
    "switched": "switches",
    "exhausted": "exhausted",
    "gave up": "gave_up",
}
"""The decisions of the fallback plugin that have a counter, and its name."""

_HELP: Final[Mapping[str, str]] = {
    "attached": "Whether the server is connected.",
    "events_total": "Events received from the server.",
    "reconnects_total": "Connections made after one was lost.",
    "calls_total": "Calls made to the server, by name.",
    "failed_calls_total": "Calls the server refused or did not answer, by name.",
    "switches_total": "Turns that went on with another model.",
    "exhausted_total": "Turns whose chain had no usable model left.",
    "gave_up_total": "Turns whose fallback could not be started.",
}


@dataclass(slots=True)
class ServerCounts:
    """The figures of one server."""

    server: str
    attached: bool = False
    events: int = 0
    reconnects: int = 0
    calls: Counter[str] = field(default_factory=Counter)
    failed_calls: Counter[str] = field(default_factory=Counter)
    decisions: Counter[str] = field(default_factory=Counter)

    def decided(self, decision: str) -> None:
        """Count a decision of the fallback plugin, if it is one that has a counter."""
        if name := _DECISIONS.get(decision):
            self.decisions[name] += 1


def exposition(servers: list[ServerCounts]) -> str:
    """Write all figures in Prometheus' text format."""
    lines: list[str] = []
    for name, text in _HELP.items():
        kind = "counter" if name.endswith("_total") else "gauge"
        full = f"fallback_plugin_{name}"
        lines += [f"# HELP {full} {text}", f"# TYPE {full} {kind}"]
        for counts in servers:
            lines += [f"{full}{{{labels}}} {value}" for labels, value in _samples(name, counts)]
    return "\n".join(lines) + "\n"


def _samples(name: str, counts: ServerCounts) -> Iterator[tuple[str, int]]:
    server = f'server="{_escaped(counts.server)}"'
    match name.removesuffix("_total"):
        case "attached":
            yield server, int(counts.attached)
        case "events":
            yield server, counts.events
        case "reconnects":
            yield server, counts.reconnects
        case "calls" | "failed_calls" as family:
            by_name = counts.calls if family == "calls" else counts.failed_calls
            for call, count in sorted(by_name.items()):
                yield f'{server},call="{_escaped(call)}"', count
        case decision:
            yield server, counts.decisions[decision]


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
