"""Request bodies. A key that is not known is passed over, as OpenCode 1.18.33 does."""

import json
from collections.abc import Callable, Collection, Mapping
from fnmatch import fnmatchcase
from typing import Any, Final, TypeAlias

from starlette.requests import Request

from fallback_plugin.agent.http.refusals import BadRequestError
from fallback_plugin.agent.records import UserPrompt
from fallback_plugin.agent.unsupported import agent_problem, format_problem, parts_problem
from fallback_plugin.model_ref import ModelRef
from fallback_plugin.settings.host_tables import PermissionSettings

Body: TypeAlias = Mapping[str, Any]

PART_KINDS: Final = ("text", "file", "agent", "subtask")
LONGEST_KEY: Final = 200


async def body_of(request: Request) -> Body:
    """Return the request's JSON object; no body is an empty one.

    Raises:
        BadRequestError: if it is something else.
    """
    raw = await request.body()
    if not raw:
        return {}
    try:
        body = json.loads(raw)
    except (ValueError, RecursionError):
        raise BadRequestError("the body is not JSON") from None
    if not isinstance(body, dict):
        raise BadRequestError("the body should be a JSON object")
    return body


def user_prompt(body: Body, *, idempotency_key: str | None = None) -> UserPrompt:
    """Read a prompt.

    Raises:
        BadRequestError: if a key is missing or of another type.
    """
    parts = required(body, "parts", list)
    for position, part in enumerate(parts):
        _check_part(part, position)
    _refuse(parts_problem(parts), "parts")
    variant = optional(body, "variant", str)
    delivery = optional(body, "delivery", str) or "queue"
    if delivery not in ("queue", "steer"):
        raise BadRequestError('Expected "queue" or "steer"\n  at ["delivery"]')
    if idempotency_key is not None and not 0 < len(idempotency_key) <= LONGEST_KEY:
        raise BadRequestError(f"Idempotency-Key has 1 to {LONGEST_KEY} characters", kind="Headers")
    message_id = _message_id(body)
    return UserPrompt(
        parts=tuple(parts),
        message_id=message_id,
        model=_model(body, "modelID", variant),
        agent=optional(body, "agent", str),
        system=optional(body, "system", str),
        tools=_tools(body),
        format=_format(body),
        no_reply=optional(body, "noReply", bool) or False,
        delivery="steer" if delivery == "steer" else "queue",
        client_key=idempotency_key or (message_id if parts else None),
    )


def session_model(body: Body) -> ModelRef | None:
    """Read the model of a new session, whose key is ``id`` there."""
    model = optional(body, "model", dict) or {}
    return _model(body, "id", optional(model, "variant", str))


def check_permission_rules(body: Body) -> None:
    """Refuse rules of a session's own that would be passed over: permissions are those of the settings.

    A rule that denies what no tool of this host does holds in any case; ``opencode run`` sends three of them.
    """
    for position, rule in enumerate(optional(body, "permission", list) or ()):
        where = f'\n  at ["permission"][{position}]'
        if not isinstance(rule, dict) or not isinstance(permission := rule.get("permission"), str):
            raise BadRequestError(f"Expected a rule with a permission{where}")
        concerns_tool = any(fnmatchcase(tool, permission) for tool in PermissionSettings.model_fields)
        if rule.get("action") != "deny" or concerns_tool:
            raise BadRequestError(
                "A session has no permission rules of its own here: write them into [permissions] of "
                f"fallback.toml{where}"
            )


def agent_name(body: Body, known: Collection[str]) -> str | None:
    """Read the name of an agent, which has to be one of those that there are."""
    found: str | None = optional(body, "agent", str)
    _refuse(agent_problem(found, known), "agent")
    return found


def check_not_archived(body: Body) -> None:
    """Refuse to archive a session, which would be passed over."""
    if (optional(body, "time", dict) or {}).get("archived") is not None:
        raise BadRequestError(
            'Sessions cannot be archived here: keep or delete it\n  at ["time"]["archived"]'
        )


def required(body: Body, key: str, kind: type) -> Any:  # noqa: ANN401 -- of the given type
    """Return a value that has to be there."""
    if key not in body:
        raise BadRequestError(f"Missing key\n  at [{json.dumps(key)}]")
    value = optional(body, key, kind)
    if value is None:
        raise BadRequestError(f"Expected {_NAMES[kind]}, got null\n  at [{json.dumps(key)}]")
    return value


def optional(body: Body, key: str, kind: type) -> Any:  # noqa: ANN401 -- of the given type
    """Return a value of the type, None if it is not there."""
    value = body.get(key)
    if value is None or (isinstance(value, kind) and not (kind is int and isinstance(value, bool))):
        return value
    raise BadRequestError(f"Expected {_NAMES[kind]}, got {json.dumps(value)[:60]}\n  at [{json.dumps(key)}]")


_NAMES: Final[Mapping[type, str]] = {
    str: "string",
    bool: "boolean",
    int: "integer",
    list: "array",
    dict: "object",
}


def _refuse(problem: str | None, *where: str) -> None:
    if problem is not None:
        place = "".join(f'["{key}"]' for key in where)
        raise BadRequestError(f"{problem}\n  at {place}")


def _format(body: Body) -> Body | None:
    found: Body | None = optional(body, "format", dict)
    _refuse(format_problem(found), "format", "type")
    return found


def _message_id(body: Body) -> str | None:
    found: str | None = optional(body, "messageID", str)
    if found is not None and not (found.startswith("msg") and len(found) <= LONGEST_KEY):
        raise BadRequestError('Expected a string starting with "msg"\n  at ["messageID"]')
    return found


def _model(body: Body, key: str, variant: str | None) -> ModelRef | None:
    model = optional(body, "model", dict)
    if model is None:
        return None
    where: Callable[[str], str] = lambda name: f'\n  at ["model"]["{name}"]'  # noqa: E731 -- three uses, one line
    for name in ("providerID", key):
        if not isinstance(model.get(name), str) or not model[name]:
            raise BadRequestError(f"Missing key{where(name)}")
    return ModelRef(model["providerID"], model[key], variant or None)


def _tools(body: Body) -> Mapping[str, bool] | None:
    tools: Mapping[str, Any] | None = optional(body, "tools", dict)
    if tools is not None and not all(isinstance(value, bool) for value in tools.values()):
        raise BadRequestError('Expected a boolean for each tool\n  at ["tools"]')
    return tools


def _check_part(part: object, position: int) -> None:
    if not isinstance(part, dict) or part.get("type") not in PART_KINDS:
        kinds = ", ".join(PART_KINDS)
        raise BadRequestError(f'Expected a part of type {kinds}\n  at ["parts"][{position}]')
    wanted = {"text": ("text",), "file": ("url", "mime")}.get(part["type"], ())
    for key in wanted:
        if not isinstance(part.get(key), str):
            raise BadRequestError(f'Missing key\n  at ["parts"][{position}]["{key}"]')
