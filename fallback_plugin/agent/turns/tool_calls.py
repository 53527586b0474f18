"""Carrying out what a model asks for: arguments checked, permission asked, every outcome a result for it."""

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from fallback_plugin.agent.providers.exchange import ToolCallEnded
from fallback_plugin.agent.turns.hooks import TurnHooks
from fallback_plugin.agent.turns.messages import failed_tool
from fallback_plugin.agent.turns.permissions import Asking, PermissionDeniedError, Permissions
from fallback_plugin.agent.turns.step_writer import StepWriter
from fallback_plugin.agent.turns.tools.arguments import check_arguments, read_arguments
from fallback_plugin.agent.turns.tools.tool import Tool, ToolRefusedError
from fallback_plugin.hookspecs import ToolCall, ToolResult

log = logging.getLogger(__name__)

NOT_CALLED: Final = "The answer was cut at its length, so this was not run."
TURN_ENDED: Final = "Not run: the person rejected another call of the same answer."


class ToolCalls:
    """Runs tools one after the other, in the order the model asked for them."""

    def __init__(self, tools: Sequence[Tool], permissions: Permissions, hooks: TurnHooks) -> None:
        self._tools = {tool.name: tool for tool in tools}
        self._permissions = permissions
        self._hooks = hooks

    def offered(self, chosen: Mapping[str, bool] | None) -> list[dict[str, Any]]:
        """Return the tools for a request; ``chosen`` may switch some off."""
        return [
            {
                "type": "function",
                "function": {
                    "name": tool.name,
                    "description": tool.description,
                    "parameters": tool.parameters,
                },
            }
            for tool in self._tools.values()
            if _is_chosen(tool.name, chosen)
        ]

    async def run(self, writer: StepWriter, project: Path, chosen: Mapping[str, bool] | None) -> bool:
        """Run every tool that a step asks for, and write each result down; False if the turn is to end."""
        for place, call in enumerate(writer.calls):
            try:
                await self._run(call, writer, project, chosen)
            except PermissionDeniedError as denial:
                await _fail(writer, call, str(denial))
                if denial.ends_turn:
                    for other in writer.calls[place + 1 :]:
                        await _fail(writer, other, TURN_ENDED)
                    return False
            except ToolRefusedError as refusal:
                await _fail(writer, call, str(refusal))
            except OSError as error:
                await _fail(writer, call, f"{error.strerror or error}: {error.filename or call.tool}")
            except Exception as error:
                log.exception("the tool %s failed", call.tool)
                await _fail(writer, call, f"the tool failed: {type(error).__name__}: {error}")
        return True

    async def leave_out(self, writer: StepWriter) -> None:
        """Close the calls of an answer that was cut at its length."""
        for call in writer.calls:
            await _fail(writer, call, NOT_CALLED)

    async def _run(
        self, call: ToolCallEnded, writer: StepWriter, project: Path, chosen: Mapping[str, bool] | None
    ) -> None:
        tool = self._tools.get(call.tool)
        if tool is None or not _is_chosen(call.tool, chosen):
            raise ToolRefusedError(f"there is no tool {call.tool!r}: they are {', '.join(self._tools)}")
        arguments = read_arguments(call.arguments, tool.parameters)
        await writer.set_tool(call.call_id, {"status": "pending", "input": arguments, "raw": call.arguments})
        session_id = str(writer.info["sessionID"])
        about = ToolCall(session_id=session_id, call_id=call.call_id, tool=tool.name, args=arguments)
        if (changed := await self._hooks.tool_before(about)) is not None:
            arguments = dict(changed)
            check_arguments(arguments, tool.parameters)
            about = ToolCall(session_id=session_id, call_id=call.call_id, tool=tool.name, args=arguments)
        permit = tool.permit(arguments, project)
        asking = Asking(
            session_id=session_id, message_id=writer.message_id, call_id=call.call_id, tool=tool.name
        )
        await self._permissions.require(asking, permit)
        start = writer.now_ms()
        await writer.set_tool(
            call.call_id,
            {"status": "running", "input": arguments, "title": permit.title, "time": {"start": start}},
        )
        output = await tool.run(arguments, project)
        result = ToolResult(title=output.title, output=output.output, metadata=output.metadata)
        result = await self._hooks.tool_after(about, result) or result
        await writer.set_tool(
            call.call_id,
            {
                "status": "completed",
                "input": arguments,
                "output": result.output,
                "title": result.title,
                "metadata": dict(result.metadata),
                "time": {"start": start, "end": writer.now_ms()},
            },
        )


async def _fail(writer: StepWriter, call: ToolCallEnded, said: str) -> None:
    state = writer.tool_state(call.call_id)
    now = writer.now_ms()
    start = (state.get("time") or {}).get("start", now)
    await writer.set_tool(call.call_id, failed_tool(state.get("input") or {}, said, start, now))


def _is_chosen(name: str, chosen: Mapping[str, bool] | None) -> bool:
    return (chosen or {}).get(name, True)
