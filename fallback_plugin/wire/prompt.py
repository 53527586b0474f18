"""A prompt as the host's ``prompt_async`` takes it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from fallback_plugin.model_ref import ModelRef
from fallback_plugin.wire.message import write_model


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """What to send to a session.

    With the ``message_id`` of a stored user message and no parts, the host runs that turn again in place:
    text, files and finished tool steps stay. It resets whatever of agent, variant, system, tools and format
    is left out, so all of them are carried.
    """

    model: ModelRef
    message_id: str | None = None
    parts: tuple[Mapping[str, Any], ...] = ()
    agent: str | None = None
    system: str | None = None
    tools: Mapping[str, bool] | None = field(default=None)
    format: Mapping[str, Any] | None = field(default=None)


def write_prompt(prompt: Prompt) -> dict[str, Any]:
    """Write the request body; ``parts`` is always there, since the host requires it."""
    optional = {
        "messageID": prompt.message_id,
        "agent": prompt.agent,
        "variant": prompt.model.variant,
        "system": prompt.system,
        "tools": dict(prompt.tools) if prompt.tools is not None else None,
        "format": dict(prompt.format) if prompt.format is not None else None,
    }
    return {
        "parts": [dict(part) for part in prompt.parts],
        "model": write_model(prompt.model),
        **{key: value for key, value in optional.items() if value is not None},
    }
