"""Typed access to the fields of a JSON object."""

from collections.abc import Mapping
from typing import Any, TypeAlias

from fallback_plugin.errors import WireError

Json: TypeAlias = Mapping[str, Any]


def required_text(source: Json, key: str) -> str:
    """Return a non-empty string field.

    Raises:
        WireError: if the field is absent, empty or of another type.
    """
    value = source.get(key)
    if not isinstance(value, str) or not value:
        raise WireError(f"field {key!r} should be a non-empty string, got {type(value).__name__}")
    return value


def required_object(source: Json, key: str) -> Json:
    """Return an object field.

    Raises:
        WireError: if the field is absent or of another type.
    """
    value = source.get(key)
    if not isinstance(value, Mapping):
        raise WireError(f"field {key!r} should be an object, got {type(value).__name__}")
    return value


def text(source: Json, key: str) -> str | None:
    """Return a string field, None if it is absent or of another type."""
    value = source.get(key)
    return value if isinstance(value, str) else None


def integer(source: Json, key: str) -> int | None:
    """Return a whole-number field, None if it is absent or of another type."""
    value = source.get(key)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def number(source: Json, key: str) -> float | None:
    """Return a number field, None if it is absent or of another type."""
    value = source.get(key)
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def optional_object(source: Json, key: str) -> Json | None:
    """Return an object field, None if it is absent or of another type."""
    value = source.get(key)
    return value if isinstance(value, Mapping) else None


def seconds(source: Json, key: str) -> float | None:
    """Return a time field, given in milliseconds since the epoch, in seconds."""
    value = number(source, key)
    return None if value is None else value / 1000
