"""The description of the API, made from its calls: OpenAPI 3.1."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from fallback_plugin import __version__
from fallback_plugin.agent.http.calls.call import Call


def description(calls: Sequence[Call]) -> dict[str, Any]:
    """Return the document that ``GET /doc`` answers with."""
    paths: dict[str, dict[str, Any]] = {}
    for call in calls:
        paths.setdefault(call.path, {})[call.method.lower()] = _operation(call)
    info = {"title": "fallback-plugin", "version": __version__, "description": "OpenCode-compatible sessions"}
    return {"openapi": "3.1.0", "info": info, "paths": paths}


def _operation(call: Call) -> dict[str, Any]:
    names = re.findall(r"{(\w+)}", call.path)
    parameters = [_parameter(name, "path", "string!") for name in names]
    parameters += [_parameter(name, "query", kind) for name, kind in call.query.items()]
    operation: dict[str, Any] = {"summary": call.summary, "parameters": parameters}
    if call.body:
        schema = _object(call.body)
        operation["requestBody"] = {"content": {"application/json": {"schema": schema}}}
    operation["responses"] = {str(call.status): {"description": call.summary}}
    return operation


def _parameter(name: str, where: str, kind: str) -> dict[str, Any]:
    schema = {"type": kind.removesuffix("!")}
    return {"name": name, "in": where, "required": kind.endswith("!"), "schema": schema}


def _object(keys: Mapping[str, str]) -> dict[str, Any]:
    properties = {name: {"type": kind.removesuffix("!")} for name, kind in keys.items()}
    required = [name for name, kind in keys.items() if kind.endswith("!")]
    return {"type": "object", "properties": properties} | ({"required": required} if required else {})
