"""What a single value may be: how it is read, kept, written, and described in the schema."""

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, Final, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    PlainSerializer,
    PlainValidator,
    SerializerFunctionWrapHandler,
    WithJsonSchema,
    WrapSerializer,
)

from fallback_plugin.model_ref import ModelRef
from fallback_plugin.settings.chain_entry import ChainEntry, chain_entries, chain_entry, model_ref
from fallback_plugin.settings.duration import DURATION_PATTERN, MAX_DURATION_S, duration_s
from fallback_plugin.settings.store_url import StoreUrl, store_url, variable_name

KeyT = TypeVar("KeyT")
ValueT = TypeVar("ValueT")

_MODEL_NAME_SCHEMA: Final[dict[str, Any]] = {"type": "string", "pattern": "^[^/,;]+/[^,;]+$"}
_CHAIN_ENTRY_SCHEMA: Final[dict[str, Any]] = {
    "anyOf": [
        _MODEL_NAME_SCHEMA,
        {
            "type": "object",
            "properties": {
                "model": _MODEL_NAME_SCHEMA,
                "variant": {"type": "string", "minLength": 1},
                "paid": {"type": "boolean"},
            },
            "required": ["model"],
            "additionalProperties": False,
        },
    ]
}


def _path(value: object) -> Path:
    if isinstance(value, Path):
        return value
    if isinstance(value, str) and value.strip() and "\0" not in value:
        return Path(value)
    raise ValueError(f"{value!r} is not a path; write it as a string")


def _written(entry: ChainEntry) -> object:
    return {"model": str(entry.model), "paid": True} if entry.paid else str(entry.model)


def _without_repeats(chain: tuple[ChainEntry, ...]) -> tuple[ChainEntry, ...]:
    first: dict[ModelRef, ChainEntry] = {}
    for entry in chain:
        first.setdefault(entry.model, entry)
    return tuple(first.values())


def _read_only(value: Mapping[KeyT, ValueT]) -> Mapping[KeyT, ValueT]:
    return MappingProxyType(dict(value))


def empty() -> Mapping[Any, Any]:
    """Return a table without keys, which nobody can change."""
    return MappingProxyType({})


def _plain(value: Mapping[KeyT, ValueT], serialize: SerializerFunctionWrapHandler) -> object:
    return serialize(dict(value))


Seconds = Annotated[
    float,
    PlainValidator(duration_s),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "string", "pattern": DURATION_PATTERN},
                {"type": "number", "minimum": 0, "maximum": MAX_DURATION_S},
            ]
        }
    ),
]
Model = Annotated[
    ModelRef, PlainValidator(model_ref), PlainSerializer(str), WithJsonSchema(_CHAIN_ENTRY_SCHEMA)
]
ModelKey = Annotated[
    ModelRef, PlainValidator(model_ref), PlainSerializer(str), WithJsonSchema(_MODEL_NAME_SCHEMA)
]
Entry = Annotated[
    ChainEntry, PlainValidator(chain_entry), PlainSerializer(_written), WithJsonSchema(_CHAIN_ENTRY_SCHEMA)
]
Chain = Annotated[
    tuple[Entry, ...],
    BeforeValidator(chain_entries),
    AfterValidator(_without_repeats),
    WithJsonSchema({"anyOf": [{"type": "array", "items": _CHAIN_ENTRY_SCHEMA}, _CHAIN_ENTRY_SCHEMA]}),
]
FilePath = Annotated[
    Path, PlainValidator(_path), PlainSerializer(str), WithJsonSchema({"type": "string", "minLength": 1})
]
ServerUrl = Annotated[
    StoreUrl,
    PlainValidator(store_url),
    PlainSerializer(str),
    WithJsonSchema({"type": "string", "pattern": "^(rediss?|valkeys?|unix)://"}),
]
VariableName = Annotated[
    str,
    PlainValidator(variable_name),
    WithJsonSchema({"type": "string", "pattern": "^[A-Za-z_][A-Za-z0-9_]*$"}),
]
ReadOnly = (AfterValidator(_read_only), WrapSerializer(_plain))


class Table(BaseModel):
    """What all tables share: values do not change and unknown keys are errors."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True, protected_namespaces=())
