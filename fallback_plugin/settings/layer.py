"""Layers of settings: one source's values, where each stands, and the merge of all of them."""

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

from fallback_plugin.settings.toml_positions import KeyPath, Position

LayerName: TypeAlias = Literal[
    "default", "user file", "project file", "host config", "environment", "command line"
]

_BEGINNING: Final = Position(1, 1)
_BARE_KEY: Final = re.compile(r"[A-Za-z0-9_-]+", re.ASCII)


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a value came from: its layer and, where it has one, its file and line or its variable."""

    layer: LayerName
    file: Path | None = None
    line: int | None = None
    variable: str | None = None

    def __str__(self) -> str:
        """Return the origin as a person reads it: ``user file /…/fallback.toml:3``."""
        if self.file is not None:
            return f"{self.layer} {self.file}" + (f":{self.line}" if self.line else "")
        return f"{self.layer} {self.variable}" if self.variable else self.layer


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    """The values of one source. ``positions`` and ``variables`` say where in it a key stands."""

    name: LayerName
    values: Mapping[str, Any]
    file: Path | None = None
    positions: Mapping[KeyPath, Position] = field(default_factory=dict)
    variables: Mapping[KeyPath, str] = field(default_factory=dict)

    def origin(self, path: KeyPath) -> Origin:
        """Return where the value of a key came from."""
        line = self.position(path).line if self.positions else None
        return Origin(self.name, self.file, line, self._variable(path))

    def position(self, path: KeyPath) -> Position:
        """Return where a key, or the closest table around it, is written; the beginning if it is not."""
        ends = range(len(path), 0, -1)
        return next((self.positions[path[:end]] for end in ends if path[:end] in self.positions), _BEGINNING)

    def place(self, path: KeyPath) -> str:
        """Return where a key stands, for a message: ``file:line:column``, a variable, or the layer's name."""
        if self.file is not None:
            position = self.position(path)
            return f"{self.file}:{position.line}:{position.column}"
        return self._variable(path) or self.name

    def _variable(self, path: KeyPath) -> str | None:
        """Return the variable that sets a key, as a part of its own value or of a table's around it."""
        for key, variable in self.variables.items():
            if key == path[: len(key)] or path == key[: len(path)]:
                return variable
        return None


def dotted(path: KeyPath) -> str:
    """Return a key the way TOML writes it: ``models."ollama/qwen3".cooldown``; list places in brackets."""
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            name = part if _BARE_KEY.fullmatch(part) else json.dumps(part, ensure_ascii=False)
            text += f".{name}" if text else name
    return text


def merge(layers: Iterable[Layer]) -> tuple[dict[str, Any], dict[KeyPath, Origin]]:
    """Return the values of all layers, later ones winning key by key, and the origin of each value.

    Tables are merged, everything else (lists, models written as tables) is replaced.
    """
    values: dict[str, Any] = {}
    origins: dict[KeyPath, Origin] = {}
    for layer in layers:
        _merge_table(values, layer.values, (), layer, origins)
    return values, origins


def _merge_table(
    target: dict[str, Any],
    source: Mapping[str, Any],
    path: KeyPath,
    layer: Layer,
    origins: dict[KeyPath, Origin],
) -> None:
    for key, value in source.items():
        here = (*path, key)
        if isinstance(value, Mapping) and not _is_value(here):
            nested = target.setdefault(key, {})
            _merge_table(nested, value, here, layer, origins)
        else:
            target[key] = value
            origins[here] = layer.origin(here)


def _is_value(path: KeyPath) -> bool:
    """Tell whether a table at this key is one value, such as a chain entry, rather than a group of keys.

    Models and permissions are: they may be written in another form as well, and a permission is a list in
    disguise, whose order says which pattern goes first.
    """
    match path:
        case ("fallback", "fallback_models") | ("agents", _, _):
            return True
        case ("providers", _, "models") | ("permissions", _):
            return True
    return False
