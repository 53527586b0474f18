"""A prompt in a column."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from fallback_plugin.agent.records import UserPrompt
from fallback_plugin.agent.store.models import stored_model, written_model
from fallback_plugin.agent.store.stored_json import read, written


def write_prompt(prompt: UserPrompt) -> str:
    """Return a prompt as it is stored."""
    values = {field.name: getattr(prompt, field.name) for field in dataclasses.fields(prompt)}
    values["model"] = written_model(prompt.model)
    return written({name: value for name, value in values.items() if value is not None})


def read_prompt(text: str, run_id: str) -> UserPrompt:
    """Return a stored prompt; fields that this release does not know, or that make no sense, are left out."""
    stored = read(text, f"prompt of run {run_id}") or {}
    known = {field.name for field in dataclasses.fields(UserPrompt)} - {"parts", "model"}
    values: dict[str, Any] = {name: value for name, value in stored.items() if name in known}
    parts = stored.get("parts")
    return UserPrompt(
        parts=tuple(part for part in parts if isinstance(part, Mapping)) if isinstance(parts, list) else (),
        model=stored_model(stored.get("model"), f"run {run_id}"),
        **values,
    )
