"""What a turn asks plugins: the hooks that concern it, bound to them by whoever starts the host."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from fallback_plugin.agent.records import Json, Outcome
from fallback_plugin.hookspecs import (
    ModelAttempt,
    NextModel,
    PermissionRequest,
    PromptRequest,
    ToolCall,
    ToolResult,
    Verdict,
)
from fallback_plugin.model_ref import ModelRef


@dataclass(frozen=True, slots=True, kw_only=True)
class CompletedTurn:
    """A turn that has ended for good. ``model`` is the one that was asked last."""

    run_id: str
    session_id: str
    message_id: str
    model: ModelRef
    outcome: Outcome
    steps: int


class TurnHooks(Protocol):
    """Each method is the hook of its name in `fallback_plugin.hookspecs`; it keeps its deadline.

    None raises, and an answer of None changes nothing.
    """

    async def chat_message(self, request: PromptRequest) -> ModelRef | None:
        """Name the model a prompt shall run on."""
        ...

    async def messages_transform(self, session_id: str, messages: Sequence[Json]) -> Sequence[Json] | None:
        """Give the history to send."""
        ...

    async def tool_before(self, call: ToolCall) -> Mapping[str, Any] | None:
        """Give other arguments."""
        ...

    async def tool_after(self, call: ToolCall, result: ToolResult) -> ToolResult | None:
        """Give another result."""
        ...

    async def permission_ask(self, request: PermissionRequest) -> Verdict | None:
        """Answer a question for the person."""
        ...

    async def model_attempt_failed(self, attempt: ModelAttempt) -> NextModel | None:
        """Name the model to ask instead."""
        ...

    async def turn_completed(self, turn: CompletedTurn) -> None:
        """See a turn end."""
        ...


class NoHooks:
    """For a host without plugins."""

    async def chat_message(self, request: PromptRequest) -> ModelRef | None:
        """Leave the model."""

    async def messages_transform(self, session_id: str, messages: Sequence[Json]) -> Sequence[Json] | None:
        """Leave the history."""

    async def tool_before(self, call: ToolCall) -> Mapping[str, Any] | None:
        """Leave the arguments."""

    async def tool_after(self, call: ToolCall, result: ToolResult) -> ToolResult | None:
        """Leave the result."""

    async def permission_ask(self, request: PermissionRequest) -> Verdict | None:
        """Leave it to the person."""

    async def model_attempt_failed(self, attempt: ModelAttempt) -> NextModel | None:
        """Leave the failure."""

    async def turn_completed(self, turn: CompletedTurn) -> None:
        """Do nothing."""
