"""What happens to a layer before it is merged: agents get one spelling, paths a base, projects no power."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from fallback_plugin.settings.findings import Finding
from fallback_plugin.settings.layer import Layer, dotted
from fallback_plugin.settings.toml_positions import KeyPath

ANY: Final = "*"
"""Stands for every key of a table."""

_PATHS: Final = (("plugins", "dirs"), ("log", "file"), ("health", "file"), ("memory", "digests"))

_SENDS_ELSEWHERE: Final = "opening a cloned repository must never send your key or your words elsewhere"

_UNTRUSTED: Final[Mapping[tuple[str, ...], str]] = {
    ("fallback", "allow_paid"): "opening a cloned repository must never spend money",
    ("plugins", "dirs"): "opening a cloned repository must never run its Python",
    ("log", "file"): "opening a cloned repository must never write outside of it",
    ("health", "file"): "opening a cloned repository must never write outside of it",
    ("memory", "digests"): "opening a cloned repository must never write outside of it",
    ("health", "url"): "opening a cloned repository must never connect to a server it names",
    ("health", "url_env"): "opening a cloned repository must never connect to a server it names",
    ("providers", ANY, "base_url"): _SENDS_ELSEWHERE,
    ("providers", ANY, "api_key_env"): _SENDS_ELSEWHERE,
    ("providers", ANY, "models"): _SENDS_ELSEWHERE,
    ("permissions",): "opening a cloned repository must never allow its own commands",
}
"""Keys that do not count in a project's file, and why."""


def with_agents_by_key(layer: Layer) -> tuple[Layer, list[Finding]]:
    """Return the layer with agents' names trimmed and in lower case; two spellings of one are a finding."""
    agents = layer.values.get("agents")
    if not isinstance(agents, Mapping):
        return layer, []
    by_key: dict[str, Any] = {}
    findings = []
    for name, agent in agents.items():
        key = name.strip().lower()
        if key in by_key:
            place = layer.place(("agents", name))
            findings.append(
                Finding(place, f"{dotted(('agents', name))}: this agent is there already; keep one")
            )
        by_key.setdefault(key, agent)
    spelled = replace(
        layer,
        values={**layer.values, "agents": by_key},
        positions={_by_key(path): position for path, position in reversed(list(layer.positions.items()))},
        variables={_by_key(path): variable for path, variable in layer.variables.items()},
    )
    return spelled, findings


def _by_key(path: KeyPath) -> KeyPath:
    match path:
        case ("agents", str() as name, *rest):
            return ("agents", name.strip().lower(), *rest)
    return path


def with_absolute_paths(layer: Layer, *, base: Path, home: Path) -> Layer:
    """Return the layer with ``~`` expanded and relative paths taken from ``base``."""

    def absolute(value: object) -> object:
        if isinstance(value, list | tuple):
            return [absolute(item) for item in value]
        if not isinstance(value, str | Path) or not str(value).strip():
            return value
        path = Path(value)
        if path.parts[:1] == ("~",):
            return str(home.joinpath(*path.parts[1:]))
        return str(base / path)

    for path in _PATHS:
        layer = _with_value(layer, path, absolute)
    return layer


def without_untrusted(layer: Layer) -> tuple[Layer, list[str]]:
    """Return a project's layer without the keys that must not come from one, and a warning for each."""
    warnings = []
    for pattern, reason in _UNTRUSTED.items():
        for path in list(_present(layer.values, pattern)):
            warnings.append(
                f"{layer.place(path)}: {dotted(path)} is ignored in a project's file: {reason}; "
                "set it in your user file"
            )
            layer = replace(layer, values=_without(layer.values, path))
    return layer, warnings


def _present(
    table: object, pattern: tuple[str, ...], above: tuple[str, ...] = ()
) -> Iterator[tuple[str, ...]]:
    """Yield the keys of a layer that a pattern names."""
    if not pattern:
        yield above
    elif isinstance(table, Mapping):
        for key in table if pattern[0] == ANY else [pattern[0]]:
            if key in table:
                yield from _present(table[key], pattern[1:], (*above, key))


def _without(table: Mapping[str, Any], path: tuple[str, ...]) -> dict[str, Any]:
    key, *below = path
    if not below:
        return {name: value for name, value in table.items() if name != key}
    return {**table, key: _without(table[key], tuple(below))}


def _with_value(layer: Layer, path: tuple[str, str], change: Callable[[object], object]) -> Layer:
    section, key = path
    table = layer.values.get(section)
    if not isinstance(table, Mapping) or key not in table:
        return layer
    return replace(layer, values={**layer.values, section: {**table, key: change(table[key])}})
