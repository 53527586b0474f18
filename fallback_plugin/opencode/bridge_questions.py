"""OpenCode's questions: which hook answers each, and how arguments and answers are spelled."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from fallback_plugin.hookspecs import (
    Confirmation,
    LastWords,
    ModelAttempt,
    NextModel,
    PromptRequest,
    ToolCall,
    ToolResult,
)
from fallback_plugin.model_ref import ModelRef
from fallback_plugin.opencode.request_failure import read_request_failure
from fallback_plugin.wire.fields import Json, optional_object, required_object, required_text, text
from fallback_plugin.wire.message import read_model, write_model

_Arguments = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Question:
    """One of the host's questions.

    ``read`` turns the host's parameters into the hook's arguments and raises `WireError` when something that
    is always there is missing; ``write`` turns the hook's answer into the result.
    """

    hook: str
    read: Callable[[Json], _Arguments]
    write: Callable[[Any], dict[str, Any]]


def session_of(params: Json) -> str | None:
    """Return the session a question is about, None for one that does not tell."""
    return text(params, "sessionID")


def _read_prompt(params: Json) -> _Arguments:
    model = optional_object(params, "model")
    reference = read_model({**model, "variant": text(params, "variant")}) if model else None
    resolved = optional_object(params, "resolved")
    return {
        "request": PromptRequest(
            session_id=required_text(params, "sessionID"),
            message_id=text(params, "messageID") or None,
            agent=text(params, "agent") or None,
            model=reference,
            resolved=read_model(resolved) if resolved else None,
        )
    }


def _write_model(model: ModelRef) -> dict[str, Any]:
    answer: dict[str, Any] = {"model": write_model(model)}
    return {**answer, "variant": model.variant} if model.variant else answer


def _read_messages(params: Json) -> _Arguments:
    messages = params.get("messages")
    return {"messages": messages if isinstance(messages, list) else []}


def _write_messages(messages: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    return {"messages": [dict(message) for message in messages]}


def _read_tool_call(params: Json) -> _Arguments:
    return {
        "call": ToolCall(
            session_id=required_text(params, "sessionID"),
            call_id=required_text(params, "callID"),
            tool=required_text(params, "tool"),
            args=optional_object(params, "args") or {},
        )
    }


def _write_arguments(arguments: Mapping[str, Any]) -> dict[str, Any]:
    return {"args": dict(arguments)}


def _read_tool_result(params: Json) -> _Arguments:
    result = ToolResult(
        title=text(params, "title") or "",
        output=text(params, "output") or "",
        metadata=optional_object(params, "metadata") or {},
    )
    return {**_read_tool_call(params), "result": result}


def _write_tool_result(result: ToolResult) -> dict[str, Any]:
    return {"title": result.title, "output": result.output, "metadata": dict(result.metadata)}


def _read_attempt(params: Json) -> _Arguments:
    error, ending = read_request_failure(optional_object(params, "failure") or {})
    host_model = read_model(required_object(params, "model"))
    tried = [read_model(each) for each in _objects(params.get("tried"))]
    names = optional_object(params, "reachable") or {}
    return {
        "attempt": ModelAttempt(
            session_id=required_text(params, "sessionID"),
            message_id=text(params, "messageID") or "",
            agent=text(params, "agent") or None,
            host_model=host_model,
            model=tried[-1] if tried else host_model,
            tried=tuple(tried),
            error=error,
            ending=ending,
            awaited=params.get("awaited") is True,
            obstacle=text(params, "obstacle"),
            reachable=frozenset(
                ModelRef(provider, model)
                for provider, models in names.items()
                if isinstance(models, list)
                for model in models
                if isinstance(model, str)
            ),
        )
    }


def _objects(value: object) -> list[Json]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def _write_next(answer: NextModel) -> dict[str, Any]:
    return {"model": write_model(answer)} if isinstance(answer, ModelRef) else {"final": True}


def _read_beginning(params: Json) -> _Arguments:
    required_text(params, "sessionID")
    return {"message_id": text(params, "messageID") or None}


def _write_confirmation(answer: Confirmation) -> dict[str, Any]:
    return {"stop": answer == "stop"}


def _read_ending(params: Json) -> _Arguments:
    required_text(params, "sessionID")
    return {}


def _write_words(words: LastWords) -> dict[str, Any]:
    return {"parts": [dict(part) for part in words.parts], "trouble": words.trouble}


QUESTIONS: Final[Mapping[str, Question]] = {
    "chat.message": Question("chat_message", _read_prompt, _write_model),
    "experimental.chat.messages.transform": Question("messages_transform", _read_messages, _write_messages),
    "tool.execute.before": Question("tool_before", _read_tool_call, _write_arguments),
    "tool.execute.after": Question("tool_after", _read_tool_result, _write_tool_result),
    "model.request": Question("model_attempt_failed", _read_attempt, _write_next),
    "model.background": Question("background_model", _read_attempt, _write_next),
    "prompt.begins": Question("confirm_prompt", _read_beginning, _write_confirmation),
    "run.ending": Question("run_ending", _read_ending, _write_words),
}
"""By the host's own names."""


def questions_for(hooks: frozenset[str]) -> list[str]:
    """Return the host's names of the questions that the given hooks answer, sorted."""
    return sorted(name for name, question in QUESTIONS.items() if question.hook in hooks)
