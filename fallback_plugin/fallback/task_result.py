"""The result of a ``task`` tool whose child session answered after the tool had returned.

OpenCode 1.18.33 returns ``<task id="ses_…" state="completed"><task_result>…</task_result></task>``, with the
child in ``metadata.sessionId`` as well. A child that is answered later leaves that result empty.
"""

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from fallback_plugin.events import AssistantMessage, StoredMessage
from fallback_plugin.hookspecs import ToolCall, ToolResult

TASK_TOOL: Final = "task"

_EMPTY: Final = re.compile(r"(<task_result>)\s*(</task_result>)")
_CHILD: Final = re.compile(r"\b(?:task_id: |task id=\")(ses_\w+)")


def child_awaited(call: ToolCall, result: ToolResult) -> str | None:
    """Return the child session whose text an empty task result lacks; None for any other result."""
    if call.tool != TASK_TOOL or not _EMPTY.search(result.output):
        return None
    child = result.metadata.get("sessionId")
    if isinstance(child, str) and child:
        return child
    found = _CHILD.search(result.output)
    return found[1] if found else None


def last_answer(history: Sequence[StoredMessage]) -> str | None:
    """Return the text of the newest assistant message, None if it has none."""
    for message in reversed(history):
        if isinstance(message.info, AssistantMessage):
            texts = [part.text for part in message.parts if part.type == "text" and part.text]
            return "\n".join(texts).strip() or None
    return None


def filled(result: ToolResult, text: str) -> ToolResult:
    """Return the result with a child's text in its empty place."""
    return replace(result, output=_EMPTY.sub(lambda found: f"{found[1]}\n{text}\n{found[2]}", result.output))
