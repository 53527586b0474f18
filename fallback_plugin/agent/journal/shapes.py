"""Sessions, messages and runs in OpenCode's own shapes."""

from collections.abc import Iterable
from typing import Any, Final

from fallback_plugin import __version__
from fallback_plugin.agent.records import Json, Run, Session, UserPrompt
from fallback_plugin.agent.unusable_models import HOW_TO_NAME_ONE
from fallback_plugin.errors import AgentError
from fallback_plugin.model_ref import ModelRef
from fallback_plugin.wire.message import DEFAULT_VARIANT

ABORTED: Final[Json] = {"name": "MessageAbortedError", "data": {"message": "Aborted"}}
"""The error of a message whose run a person stopped."""

INTERRUPTED: Final[Json] = {
    "name": "MessageAbortedError",
    "data": {"message": "The host ended while this was being answered"},
}
"""The error of a message whose run a restart cut off."""

UNKNOWN_ERROR: Final[Json] = {"name": "UnknownError", "data": {"message": "The run ended without saying why"}}

_NO_TOKENS: Final[Json] = {"input": 0, "output": 0, "reasoning": 0, "cache": {"read": 0, "write": 0}}


def milliseconds(seconds: float) -> int:
    """Return a time as the wire has it."""
    return round(seconds * 1000)


def session_info(session: Session) -> dict[str, Any]:
    """Return a session as OpenCode shows it; ``continues`` and ``continuedBy`` are our own.

    One that another continues is shown as archived, so that OpenCode's clients list the two once.
    """
    time = {"created": milliseconds(session.created_at), "updated": milliseconds(session.updated_at)}
    if session.continued_by:
        time["archived"] = time["updated"]
    info = {
        "id": session.id,
        "slug": session.id.removeprefix("ses_"),
        "version": __version__,
        "projectID": "global",
        "directory": session.directory,
        "path": "",
        "title": session.title,
        "parentID": session.parent_id,
        "agent": session.agent,
        "model": _session_model(session.model) if session.model else None,
        "revert": {"messageID": session.reverted_to} if session.reverted_to else None,
        "continues": session.continues,
        "continuedBy": session.continued_by,
        "time": time,
    }
    return {name: value for name, value in info.items() if value is not None}


def no_model() -> AgentError:
    """Return the refusal of a prompt for which nothing names a model."""
    return AgentError(f"no model: name one in the prompt, or {HOW_TO_NAME_ONE}")


def user_info(run: Run, session_id: str, now: float) -> dict[str, Any]:
    """Return the info of a run's person's message; the run's prompt names its model."""
    model = run.prompt.model
    if model is None:
        raise no_model()
    prompt = run.prompt
    info = {
        "id": run.message_id,
        "sessionID": session_id,
        "role": "user",
        "time": {"created": milliseconds(now)},
        "agent": prompt.agent,
        "model": _prompt_model(model),
        "system": prompt.system,
        "tools": dict(prompt.tools) if prompt.tools is not None else None,
        "format": prompt.format,
    }
    return {name: value for name, value in info.items() if value is not None}


def ended_answer(message_id: str, run: Run, session: Session, now: float) -> dict[str, Any]:
    """Return the info of an answer that ended before it said anything; the run's prompt names its model."""
    model, agent = run.prompt.model, run.prompt.agent
    if model is None:
        raise no_model()
    return {
        "id": message_id,
        "sessionID": session.id,
        "role": "assistant",
        "parentID": run.message_id,
        "providerID": model.provider,
        "modelID": model.model,
        "agent": agent,
        "mode": agent,
        "path": {"cwd": session.directory, "root": session.directory},
        "cost": 0,
        "tokens": _NO_TOKENS,
        "time": {"created": milliseconds(now), "completed": milliseconds(now)},
    }


def plain_text(parts: Iterable[Json]) -> str:
    """Return the words among a message's parts."""
    words = (part for part in parts if part.get("type") == "text" and not part.get("synthetic"))
    return "\n".join(str(part.get("text", "")) for part in words)


def run_info(run: Run) -> dict[str, Any]:
    """Return a run as our own events show it: enough to draw a prompt that waits."""
    times = {"accepted": run.accepted_at, "started": run.started_at, "ended": run.ended_at}
    info = {
        "id": run.id,
        "sessionID": run.session_id,
        "messageID": run.message_id,
        "sequence": run.sequence,
        "state": run.state,
        "outcome": run.outcome,
        "error": run.error,
        "time": {name: milliseconds(time) for name, time in times.items() if time is not None},
        **_shown_prompt(run.prompt),
    }
    return {name: value for name, value in info.items() if value is not None}


def _shown_prompt(prompt: UserPrompt) -> dict[str, Any]:
    # Files are left out: an event for each change of state would carry them all again.
    return {
        "text": prompt.text,
        "agent": prompt.agent,
        "model": _prompt_model(prompt.model) if prompt.model else None,
        "delivery": prompt.delivery,
    }


def _prompt_model(model: ModelRef) -> dict[str, str]:
    named = {"providerID": model.provider, "modelID": model.model}
    return {**named, "variant": model.variant} if model.variant else named


def _session_model(model: ModelRef) -> dict[str, str]:
    return {"id": model.model, "providerID": model.provider, "variant": model.variant or DEFAULT_VARIANT}
