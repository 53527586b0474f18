"""A model's arguments, checked against the schema it was given: what is wrong is told to it."""

import json
from collections.abc import Mapping
from typing import Any, Final

from fallback_plugin.agent.records import Json
from fallback_plugin.agent.turns.tools.tool import ToolRefusedError

_TYPES: Final[Mapping[str, type]] = {"string": str, "integer": int, "boolean": bool}


def read_arguments(text: str, schema: Json) -> dict[str, Any]:
    """Return the arguments that a model wrote.

    Raises:
        ToolRefusedError: if they are no JSON object, or not what the schema describes.
    """
    try:
        arguments = json.loads(text or "{}")
    except (ValueError, RecursionError) as error:
        raise ToolRefusedError(f"the arguments are not valid JSON: {error}") from error
    if not isinstance(arguments, dict):
        raise ToolRefusedError("the arguments should be a JSON object")
    check_arguments(arguments, schema)
    return arguments


def check_arguments(arguments: Json, schema: Json) -> None:
    """Refuse arguments that are not what the schema describes.

    Raises:
        ToolRefusedError: if they are not.
    """
    if problem := _problem(arguments, schema):
        raise ToolRefusedError(f"{problem}; call it again with arguments as described")


def _problem(arguments: Json, schema: Json) -> str | None:
    properties = schema["properties"]
    for name in schema.get("required", ()):
        if name not in arguments:
            return f"the argument {name!r} is missing"
    for name, value in arguments.items():
        if name not in properties:
            return f"there is no argument {name!r}: they are {', '.join(properties)}"
        if problem := _wrong(value, properties[name]):
            return f"the argument {name!r} should be {problem}"
    return None


def _wrong(value: object, schema: Json) -> str | None:
    expected = schema["type"]
    if not isinstance(value, _TYPES[expected]) or (expected != "boolean" and isinstance(value, bool)):
        return f"of type {expected}"
    if isinstance(value, int) and not schema.get("minimum", value) <= value <= schema.get("maximum", value):
        return f"from {schema.get('minimum', 'any')} to {schema.get('maximum', 'any')}"
    if isinstance(value, str) and len(value) < schema.get("minLength", 0):
        return "a text that is not empty"
    return None
