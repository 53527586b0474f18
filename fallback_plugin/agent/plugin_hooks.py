"""The hooks of a turn, asked of the plugins."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from fallback_plugin.agent.plugin_events import PluginEvents
from fallback_plugin.agent.records import Json
from fallback_plugin.agent.turns.hooks import CompletedTurn
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
from fallback_plugin.plugins import PluginHost


class PluginHooks:
    """`TurnHooks` over a plugin host, which keeps deadlines and holds back what plugins raise.

    ``on_completed`` is the host's own: told of a turn's end before the plugins are.
    """

    def __init__(
        self, plugins: PluginHost, events: PluginEvents, on_completed: Callable[[CompletedTurn], None]
    ) -> None:
        self._plugins = plugins
        self._events = events
        self._on_completed = on_completed

    async def chat_message(self, request: PromptRequest) -> ModelRef | None:
        """Ask for the model a prompt shall run on."""
        answer: ModelRef | None = await self._ask("chat_message", request.session_id, request=request)
        return answer

    async def messages_transform(self, session_id: str, messages: Sequence[Json]) -> Sequence[Json] | None:
        """Ask for the history to send."""
        answer: Sequence[Json] | None = await self._ask("messages_transform", session_id, messages=messages)
        return answer

    async def tool_before(self, call: ToolCall) -> Mapping[str, Any] | None:
        """Ask for other arguments."""
        answer: Mapping[str, Any] | None = await self._ask("tool_before", call.session_id, call=call)
        return answer

    async def tool_after(self, call: ToolCall, result: ToolResult) -> ToolResult | None:
        """Ask for another result."""
        answer: ToolResult | None = await self._ask("tool_after", call.session_id, call=call, result=result)
        return answer

    async def permission_ask(self, request: PermissionRequest) -> Verdict | None:
        """Ask for an answer in the person's stead."""
        answer: Verdict | None = await self._ask("permission_ask", request.session_id, request=request)
        return answer

    async def model_attempt_failed(self, attempt: ModelAttempt) -> NextModel | None:
        """Ask for the model to go on with."""
        answer: NextModel | None = await self._ask(
            "model_attempt_failed", attempt.session_id, attempt=attempt
        )
        return answer

    async def turn_completed(self, turn: CompletedTurn) -> None:
        """Tell that a turn has ended."""
        self._on_completed(turn)
        await self._events.told()
        await self._plugins.notify("turn_completed", session_id=turn.session_id, turn=turn)

    async def _ask(self, hook: str, session_id: str, **arguments: object) -> Any | None:  # noqa: ANN401 -- each hook has its own type
        await self._events.told()
        return await self._plugins.ask(hook, session_id=session_id, **arguments)
