"""Messages and parts of an answer in OpenCode's shapes, made anew; times are milliseconds since the epoch."""

from typing import Any, Final

from fallback_plugin.agent.providers.exchange import NO_USAGE, Usage
from fallback_plugin.agent.records import Json
from fallback_plugin.model_ref import ModelRef

ABORTED: Final[Json] = {"name": "MessageAbortedError", "data": {"message": "Aborted"}}
"""The error of an answer that a person stopped."""

TOOL_ABORTED: Final = "Tool execution aborted"
"""What a tool's part says then."""


def assistant_message(
    *,
    message_id: str,
    session_id: str,
    parent_id: str,
    model: ModelRef,
    agent: str,
    directory: str,
    created_ms: int,
) -> dict[str, Any]:
    """Return the ``info`` of an answer that begins: one step of it."""
    return {
        "id": message_id,
        "sessionID": session_id,
        "role": "assistant",
        "parentID": parent_id,
        "providerID": model.provider,
        "modelID": model.model,
        "mode": agent,
        "agent": agent,
        "path": {"cwd": directory, "root": directory},
        "cost": 0,
        "tokens": tokens(NO_USAGE),
        "time": {"created": created_ms},
    }


def completed_message(
    info: Json,
    *,
    completed_ms: int,
    finish: str | None = None,
    error: Json | None = None,
    usage: Usage = NO_USAGE,
) -> dict[str, Any]:
    """Return an answer's ``info`` at its end."""
    ended = {**info, "time": {**info["time"], "completed": completed_ms}}
    if usage != NO_USAGE:
        ended["tokens"] = tokens(usage)
    if finish is not None:
        ended["finish"] = finish
    if error is not None:
        ended["error"] = error
    return ended


def tokens(usage: Usage) -> dict[str, Any]:
    """Return a usage as OpenCode counts: input without what was cached."""
    counted = {
        "input": max(0, usage.input_tokens - usage.cached_tokens),
        "output": usage.output_tokens,
        "reasoning": usage.reasoning_tokens,
        "cache": {"read": usage.cached_tokens, "write": 0},
    }
    return counted if usage == NO_USAGE else {"total": usage.total, **counted}


def aborted_tool(state: Json, now_ms: int) -> dict[str, Any]:
    """Return the state of a tool that was under way when the turn was stopped."""
    return failed_tool(state.get("input") or {}, TOOL_ABORTED, _started(state, now_ms), now_ms)


def failed_tool(arguments: Json, said: str, start_ms: int, end_ms: int) -> dict[str, Any]:
    """Return the state of a tool that did not do what was asked."""
    return {
        "status": "error",
        "input": arguments,
        "error": said,
        "time": {"start": start_ms, "end": end_ms},
    }


def _started(state: Json, now_ms: int) -> int:
    start = (state.get("time") or {}).get("start", now_ms)
    return start if isinstance(start, int) else now_ms
