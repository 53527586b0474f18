"""What is wrong in a layer, said with its place, the key and what to do."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, Final, get_args

from pydantic import BaseModel, ValidationError

from fallback_plugin.settings.failure_kind import FAILURE_KINDS
from fallback_plugin.settings.host_tables import BY_PATTERN, ONE_VERDICT
from fallback_plugin.settings.layer import Layer, dotted
from fallback_plugin.settings.policy import POLICY_TABLE, POLICY_WORD
from fallback_plugin.settings.tables import Settings
from fallback_plugin.settings.toml_positions import KeyPath

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

_KEY_MARK: Final = "[key]"
"""What pydantic puts behind a mapping's key when the key itself is wrong."""

_MARKS: Final = frozenset({_KEY_MARK, POLICY_WORD, POLICY_TABLE, ONE_VERDICT, BY_PATTERN})

_QUOTED: Final = re.compile(r"'([^']*)'")

_EXPECTED: Final[Mapping[str, str]] = {
    "bool_type": "true or false",
    "int_type": "a whole number",
    "string_type": "a string",
    "tuple_type": "a list",
    "mapping_type": "a table",
    "dict_type": "a table",
    "model_type": "a table",
}


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong: its place (``file:line:column`` or a variable) and what to do about it."""

    place: str
    message: str

    def __str__(self) -> str:
        """Return both on one line."""
        return f"{self.place}: {self.message}"


def layer_findings(layer: Layer) -> list[Finding]:
    """Return everything in a layer that its tables do not allow, in the order in which it is written."""
    try:
        Settings.model_validate(layer.values)
    except ValidationError as error:
        found = [(_path(details), details) for details in error.errors(include_url=False)]
        found.sort(key=lambda one: layer.position(one[0]))
        return [Finding(layer.place(path), _message(path, details)) for path, details in found]
    return []


def _path(details: "ErrorDetails") -> KeyPath:
    return tuple(part for part in details["loc"] if part not in _MARKS)


def _message(path: KeyPath, details: "ErrorDetails") -> str:
    if details["type"] == "extra_forbidden":
        return _unknown_key(path)
    if details["loc"][-1:] == (_KEY_MARK,) and path[-2:-1] == ("policy",):
        return _unknown_kind(path)
    return f"{dotted(path)}: {_explanation(details)}"


def _unknown_key(path: KeyPath) -> str:
    key = str(path[-1])
    table = _table_at(path[:-1])
    known = list(table.model_fields) if table else []
    near = get_close_matches(key.lower(), known, n=1)
    homes = [name for name, field in Settings.model_fields.items() if key in _fields(field.annotation)]
    if homes:
        hint = f"it belongs in [{homes[0]}]"
    elif near:
        hint = f"did you mean {near[0]!r}?"
    else:
        hint = f"known here: {', '.join(known)}"
    return f"unknown key {dotted(path)}; {hint}"


def _unknown_kind(path: KeyPath) -> str:
    near = get_close_matches(str(path[-1]).lower(), FAILURE_KINDS, n=1)
    hint = f"did you mean {near[0]!r}?" if near else f"one of {', '.join(FAILURE_KINDS)}"
    return f"unknown kind of failure {dotted(path)}; {hint}"


def _table_at(path: KeyPath) -> type[BaseModel] | None:
    """Return the model of the table at a key; list places and names of agents and models are passed over."""
    table: type[BaseModel] | None = Settings
    named = False
    for part in path:
        if table is None or isinstance(part, int):
            continue
        if named:
            named = False
            continue
        field = table.model_fields.get(part)
        table = _model_in(field.annotation) if field else None
        named = part == "policy" or path[0] in ("agents", "models", "providers")
    return table


def _model_in(annotation: object) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((found for part in get_args(annotation) if (found := _model_in(part))), None)


def _fields(annotation: object) -> Mapping[str, Any]:
    return (
        annotation.model_fields if isinstance(annotation, type) and issubclass(annotation, BaseModel) else {}
    )


def _explanation(details: "ErrorDetails") -> str:
    kind, given, context = details["type"], details["input"], details.get("ctx", {})
    if kind == "value_error":
        return str(context["error"])
    if kind == "missing":
        return "this key is missing"
    if kind == "literal_error":
        words = _QUOTED.findall(str(context["expected"]))
        near = get_close_matches(str(given), words, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"write one of {', '.join(words)}"
        return f"{_shown(given)} is not known here; {hint}"
    if kind in _EXPECTED:
        return f"{_shown(given)} should be {_EXPECTED[kind]}"
    return f"{_shown(given)}: {details['msg'][:1].lower()}{details['msg'][1:]}"


def _shown(value: object) -> str:
    """Return a value the way TOML writes it, cut to a readable length."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Mapping):
        return "a table"
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}…"  # noqa: PLR2004 -- what fits in a line of a terminal
