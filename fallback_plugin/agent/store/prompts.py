"""A prompt in a column."""

import dataclasses
from collections.abc import Mapping
from typing import Any, Final

from fallback_plugin.agent.records import UserPrompt
from fallback_plugin.agent.store.models import stored_model, written_model
from fallback_plugin.agent.store.stored_json import read, written

_MODELS: Final = ("model", "instead_of")


def write_prompt(prompt: UserPrompt) -> str:
    """Return a prompt as it is stored."""
    values = {field.name: getattr(prompt, field.name) for field in dataclasses.fields(prompt)}
    for name in _MODELS:
        values[name] = written_model(getattr(prompt, name))
    return written({name: value for name, value in values.items() if value is not None})


def read_prompt(text: str, run_id: str) -> UserPrompt:
    """Return a stored prompt; fields that this release does not know, or that make no sense, are left out."""
    stored = read(text, f"prompt of run {run_id}") or {}
    known = {field.name for field in dataclasses.fields(UserPrompt)} - {"parts", *_MODELS}
    values: dict[str, Any] = {name: value for name, value in stored.items() if name in known}
    parts = stored.get("parts")
    return UserPrompt(
        parts=tuple(part for part in parts if isinstance(part, Mapping)) if isinstance(parts, list) else (),
        model=stored_model(stored.get("model"), f"run {run_id}"),
        instead_of=stored_model(stored.get("instead_of"), f"run {run_id}"),
        **values,
    )
