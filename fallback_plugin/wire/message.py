"""Messages and parts as the host stores and sends them."""

from typing import Any, Final, cast

from fallback_plugin.errors import WireError
from fallback_plugin.events import AssistantMessage, Message, Part, StoredMessage, UserMessage
from fallback_plugin.model_ref import ModelRef
from fallback_plugin.wire.error import read_error
from fallback_plugin.wire.fields import (
    Json,
    integer,
    optional_object,
    required_object,
    required_text,
    seconds,
    text,
)

DEFAULT_VARIANT: Final = "default"
TOOL_STATUSES: Final = frozenset({"pending", "running", "completed", "error"})


def read_model(source: Json) -> ModelRef:
    """Read ``{providerID, modelID, variant?}``; sessions spell the model's key ``id``.

    The host's placeholder variant ``default`` becomes None.
    """
    model = text(source, "modelID") or required_text(source, "id")
    variant = text(source, "variant")
    return ModelRef(
        required_text(source, "providerID"), model, None if variant == DEFAULT_VARIANT else variant or None
    )


def write_model(model: ModelRef) -> dict[str, str]:
    """Write a model the way prompts name it. The variant travels beside it, not in it."""
    return {"providerID": model.provider, "modelID": model.model}


def read_message(source: Json) -> Message:
    """Read the ``info`` of a message.

    Raises:
        WireError: if it has no id, session, role or model.
    """
    match required_text(source, "role"):
        case "user":
            return _read_user(source)
        case "assistant":
            return _read_assistant(source)
        case role:
            raise WireError(f"a message has the unknown role {role!r}")


def _read_user(source: Json) -> UserMessage:
    tools = optional_object(source, "tools")
    return UserMessage(
        id=required_text(source, "id"),
        session_id=required_text(source, "sessionID"),
        created_at=seconds(optional_object(source, "time") or {}, "created") or 0.0,
        agent=text(source, "agent"),
        model=read_model(required_object(source, "model")),
        system=text(source, "system"),
        tools=tools,
        format=optional_object(source, "format"),
    )


def _read_assistant(source: Json) -> AssistantMessage:
    time = optional_object(source, "time") or {}
    error = source.get("error")
    return AssistantMessage(
        id=required_text(source, "id"),
        session_id=required_text(source, "sessionID"),
        parent_id=text(source, "parentID") or "",
        model=read_model(source),
        created_at=seconds(time, "created") or 0.0,
        agent=text(source, "agent") or text(source, "mode"),
        finish=text(source, "finish"),
        completed=seconds(time, "completed") is not None,
        error=read_error(error) if error is not None else None,
        tokens=_tokens(optional_object(source, "tokens") or {}),
    )


def _tokens(source: Json) -> int:
    """Return how many tokens a step's context holds: ``{input, output, cache: {read, write}, …}``."""
    cache = optional_object(source, "cache") or {}
    counted = ((source, "input"), (source, "output"), (cache, "read"), (cache, "write"))
    return sum(max(0, integer(where, key) or 0) for where, key in counted)


def read_part(source: Json) -> Part:
    """Read a part of a message.

    Raises:
        WireError: if it has no id, message, session or type.
    """
    status = text(optional_object(source, "state") or {}, "status")
    return Part(
        id=required_text(source, "id"),
        message_id=required_text(source, "messageID"),
        session_id=required_text(source, "sessionID"),
        type=required_text(source, "type"),
        text=text(source, "text"),
        synthetic=source.get("synthetic") is True,
        tool=text(source, "tool"),
        tool_status=cast("Any", status) if status in TOOL_STATUSES else None,
        raw=source,
    )


def read_history(source: object) -> list[StoredMessage]:
    """Read the answer of the host's message list, oldest first. Entries that make no sense are left out."""
    history = []
    for entry in source if isinstance(source, list) else []:
        try:
            info = read_message(required_object(entry, "info"))
            parts = tuple(read_part(part) for part in entry.get("parts") or [])
        except (WireError, AttributeError, TypeError):
            continue
        history.append(StoredMessage(info=info, parts=parts))
    return history
