"""Reading the chunks of a streamed chat completion: a pure reader that expects anything."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from fallback_plugin.agent.providers.exchange import (
    NO_USAGE,
    Finished,
    FinishWord,
    ModelEvent,
    ReasoningDelta,
    TextDelta,
    ToolCallBegun,
    ToolCallEnded,
    Usage,
)
from fallback_plugin.agent.providers.failure import ModelFailedError, ended_badly
from fallback_plugin.agent.records import Json
from fallback_plugin.events import HostError
from fallback_plugin.wire.fields import integer, optional_object, text

MAX_ANSWER: Final = 8 * 1024 * 1024
"""Characters of text, reasoning and arguments that one answer may have."""

MAX_CALLS: Final = 128
"""Tools that one answer may ask for."""

_FINISH_WORDS: Final[Mapping[str, FinishWord]] = {
    "stop": "stop",
    "length": "length",
    "tool_calls": "tool-calls",
    "function_call": "tool-calls",
    "content_filter": "content-filter",
}
_NO_END: Final = frozenset({"", "error"})
"""Finish words that say that there was no proper end."""

_EMPTY: Final = HostError(name="UnknownError", message="the model answered with nothing")
_FILTERED: Final = HostError(
    name="ContentFilterError", message="The response was blocked by the provider's content filter"
)


@dataclass(slots=True)
class _Call:
    call_id: str
    tool: str = ""
    arguments: list[str] = field(default_factory=list)


class AnswerReader:
    """Turns chunks into events, in their order, and judges the end.

    A tool call whose id is there already is left out: a provider that repeats itself runs nothing twice.
    """

    def __init__(self, new_call_id: Callable[[], str]) -> None:
        self._new_call_id = new_call_id
        self._calls: dict[int, _Call] = {}
        self._repeated: set[int] = set()
        self._last_index = 0
        self._length = 0
        self._spoken = False
        self._usage = NO_USAGE
        self.finish: str | None = None
        self.begun = False

    def read(self, chunk: object) -> Iterator[ModelEvent]:
        """Yield what a chunk says; what makes no sense in it is passed over.

        Raises:
            ModelFailedError: if the answer outgrows its limits.
        """
        if not isinstance(chunk, Mapping):
            return
        self._usage = _usage(optional_object(chunk, "usage")) or self._usage
        for choice in _objects(chunk.get("choices"))[:1]:
            delta = optional_object(choice, "delta") or {}
            thought = text(delta, "reasoning_content") or text(delta, "reasoning")
            if thought:
                yield ReasoningDelta(self._counted(thought))
            if spoken := text(delta, "content"):
                self._spoken = self._spoken or not spoken.isspace()
                yield TextDelta(self._counted(spoken))
            for call in _objects(delta.get("tool_calls")):
                yield from self._read_call(call)
            self.finish = text(choice, "finish_reason") or self.finish

    def end(self) -> Iterator[ModelEvent]:
        """Yield the end of what was read.

        Raises:
            ModelFailedError: if it has no proper end, nothing in it, or was blocked.
        """
        if self.finish is None or self.finish in _NO_END:
            raise ended_badly("the answer ended without a finish reason", begun=self.begun)
        reason = _FINISH_WORDS.get(self.finish, "stop")
        calls = [call for call in self._calls.values() if call.tool]
        if reason == "content-filter":
            raise ModelFailedError(_FILTERED, "refused")
        if not calls and reason == "tool-calls":
            reason = "stop"
        if not calls and reason == "stop" and not self._spoken:
            raise ModelFailedError(_EMPTY, "empty")
        for call in calls:
            yield ToolCallEnded(call.call_id, call.tool, "".join(call.arguments))
        # Some servers end a request for tools with the word for an answer.
        yield Finished("tool-calls" if calls and reason == "stop" else reason, self._usage)

    def _read_call(self, delta: Json) -> Iterator[ModelEvent]:
        call_id = text(delta, "id") or ""
        function = optional_object(delta, "function") or {}
        index = self._index(integer(delta, "index"), call_id)
        if index in self._repeated:
            return
        call = self._calls.get(index)
        if call is None:
            if call_id and any(each.call_id == call_id for each in self._calls.values()):
                self._repeated.add(index)
                return
            if len(self._calls) >= MAX_CALLS:
                raise ended_badly(f"the answer asks for more than {MAX_CALLS} tools", begun=self.begun)
            call = self._calls[index] = _Call(call_id or self._new_call_id())
        if not call.tool and (name := text(function, "name")):
            call.tool = self._counted(name)
            yield ToolCallBegun(call.call_id, name)
        if arguments := text(function, "arguments"):
            call.arguments.append(self._counted(arguments))

    def _index(self, index: int | None, call_id: str) -> int:
        """Return the place of a call: some servers leave its number out."""
        if index is None:
            known = (place for place, call in self._calls.items() if call.call_id == call_id)
            index = next(known, len(self._calls)) if call_id else self._last_index
        self._last_index = index
        return index

    def _counted(self, piece: str) -> str:
        self._length += len(piece)
        self.begun = True
        if self._length > MAX_ANSWER:
            raise ended_badly(f"the answer is longer than {MAX_ANSWER} characters", begun=True)
        return piece


def _objects(value: object) -> list[Json]:
    return [each for each in value if isinstance(each, Mapping)] if isinstance(value, list) else []


def _usage(source: Json | None) -> Usage | None:
    if source is None:
        return None
    prompt = optional_object(source, "prompt_tokens_details") or {}
    completion = optional_object(source, "completion_tokens_details") or {}
    return Usage(
        input_tokens=_count(source, "prompt_tokens"),
        output_tokens=_count(source, "completion_tokens"),
        reasoning_tokens=_count(completion, "reasoning_tokens"),
        cached_tokens=_count(prompt, "cached_tokens"),
    )


def _count(source: Json, key: str) -> int:
    return max(0, integer(source, key) or 0)
