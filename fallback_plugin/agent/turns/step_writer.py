"""Writing one step of an answer down, as it comes: an assistant message and its parts."""

from collections.abc import Callable
from typing import Any, Final, Literal, TypeAlias

from fallback_plugin.agent.identifiers import NewId
from fallback_plugin.agent.protocols import TurnJournal
from fallback_plugin.agent.providers.exchange import (
    Finished,
    ModelEvent,
    ReasoningDelta,
    TextDelta,
    ToolCallBegun,
    ToolCallEnded,
)
from fallback_plugin.agent.records import Json
from fallback_plugin.agent.turns.messages import aborted_tool, completed_message, tokens

Clock: TypeAlias = Callable[[], float]
"""Tells the time in seconds since the epoch."""

_Growing: TypeAlias = Literal["text", "reasoning"]
_ENDED: Final = frozenset({"completed", "error"})


class StepWriter:
    """Holds the step's message and the one part that grows; every write goes to the journal at once."""

    def __init__(self, journal: TurnJournal, info: Json, clock: Clock, new_id: NewId) -> None:
        self._journal = journal
        self._clock = clock
        self._new_id = new_id
        self._growing: dict[str, Any] | None = None
        self._pieces: list[str] = []
        self._tools: dict[str, dict[str, Any]] = {}
        self._begun = False
        self.info: Json = info
        self.calls: list[ToolCallEnded] = []
        self.finished: Finished | None = None

    @property
    def message_id(self) -> str:
        """The id of the step's message."""
        return str(self.info["id"])

    async def begin(self) -> None:
        """Let the message appear, empty."""
        await self._journal.put_message(self.info)

    async def take(self, event: ModelEvent) -> None:
        """Write down what the model says next."""
        if not self._begun:
            self._begun = True
            await self._put({"type": "step-start"})
        match event:
            case TextDelta(text):
                await self._grow("text", text)
            case ReasoningDelta(text):
                await self._grow("reasoning", text)
            case ToolCallBegun(call_id, tool):
                await self.end_growing()
                state = {"status": "pending", "input": {}, "raw": ""}
                part = await self._put({"type": "tool", "tool": tool, "callID": call_id, "state": state})
                self._tools[call_id] = part
            case ToolCallEnded():
                self.calls.append(event)
            case Finished():
                await self.end_growing()
                self.finished = event

    def tool_state(self, call_id: str) -> Json:
        """Return how a tool's part stands."""
        state: Json = self._tools[call_id]["state"]
        return state

    async def set_tool(self, call_id: str, state: Json) -> None:
        """Write down how a tool stands; when this returns it is kept, whatever happens."""
        part = self._tools[call_id] = {**self._tools[call_id], "state": state}
        await self._journal.put_part(part)

    async def end_growing(self) -> None:
        """Close the part that grows."""
        if self._growing is None:
            return
        part, self._growing = self._growing, None
        time = {**part["time"], "end": self.now_ms()}
        await self._journal.put_part({**part, "text": "".join(self._pieces), "time": time}, durable=False)

    async def finish_step(self) -> Json:
        """Write the step's end; return the message's ``info`` as it ends, which is not yet written."""
        ended = self.finished
        assert ended is not None, "a step has a proper end"  # noqa: S101 -- the caller's own order
        finish = {"type": "step-finish", "reason": ended.reason, "tokens": tokens(ended.usage), "cost": 0}
        await self._put(finish)
        self.info = completed_message(
            self.info, completed_ms=self.now_ms(), finish=ended.reason, usage=ended.usage
        )
        return self.info

    async def break_off(self, error: Json) -> Json:
        """Close what is open, for a step that ends with an error; return the ``info`` as it ends."""
        await self.end_growing()
        for call_id, part in self._tools.items():
            if part["state"]["status"] not in _ENDED:
                await self.set_tool(call_id, aborted_tool(part["state"], self.now_ms()))
        self.info = completed_message(self.info, completed_ms=self.now_ms(), error=error)
        return self.info

    def now_ms(self) -> int:
        """Return the time in the host's unit."""
        return int(self._clock() * 1000)

    async def _grow(self, kind: _Growing, text: str) -> None:
        if self._growing is None or self._growing["type"] != kind:
            await self.end_growing()
            self._pieces = []
            self._growing = await self._put({"type": kind, "text": "", "time": {"start": self.now_ms()}})
        self._pieces.append(text)
        await self._journal.append(self._growing["id"], "text", text)

    async def _put(self, fields: Json) -> dict[str, Any]:
        part = {
            "id": self._new_id("prt"),
            "messageID": self.message_id,
            "sessionID": self.info["sessionID"],
            **fields,
        }
        await self._journal.put_part(part, durable=False)
        return part
