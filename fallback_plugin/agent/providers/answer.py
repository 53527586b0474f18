"""Reading the chunks of a chat completion, streamed or whole: a pure reader that expects anything."""

import json
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

MAX_DEPTH: Final = 8
"""Levels of parts in parts that are read."""

_FINISH_WORDS: Final[Mapping[str, FinishWord]] = {
    "stop": "stop",
    "length": "length",
    "tool_calls": "tool-calls",
    "function_call": "tool-calls",
    "content_filter": "content-filter",
}
_NO_END: Final = frozenset({"", "error"})
"""Finish words that say that there was no proper end."""

_EMPTY: Final[Mapping[FinishWord, str]] = {
    "stop": "the model answered with nothing",
    "length": "the model reached its output limit before it said anything",
}
"""What is said of an answer without text or tool call, by its end."""

_FILTERED: Final = HostError(
    name="ContentFilterError", message="The response was blocked by the provider's content filter"
)


@dataclass(slots=True)
class _Call:
    """A tool call: ``call_id`` is unique in the answer, ``given_id`` the provider's, ``index`` its place."""

    call_id: str
    given_id: str
    index: int | None
    tool: str = ""
    arguments: list[str] = field(default_factory=list)

    @property
    def is_whole(self) -> bool:
        """Whether the arguments are complete."""
        if not self.arguments or not self.arguments[-1].rstrip().endswith("}"):
            return False
        try:
            json.loads("".join(self.arguments))
        except (ValueError, RecursionError):
            return False
        return True


class AnswerReader:
    """Turns chunks into events, in their order, and judges the end.

    A tool call whose id is there already is left out: a provider that repeats itself runs nothing twice.

    Attributes:
        finish: how the provider says that the answer ended, in its own word.
        is_complete: the provider has said that nothing follows, whether or not it gave such a word.
        begun: some of the answer has come.
    """

    def __init__(self, new_call_id: Callable[[], str]) -> None:
        self._new_call_id = new_call_id
        self._calls: list[_Call] = []
        self._repeated: set[int] = set()
        self._length = 0
        self._spoken = False
        self._usage = NO_USAGE
        self.finish: str | None = None
        self.is_complete = False
        self.begun = False

    def read(self, chunk: object) -> Iterator[ModelEvent]:
        """Yield what a chunk, or a whole completion, says; what makes no sense in it is passed over.

        Raises:
            ModelFailedError: if the answer outgrows its limits.
        """
        if not isinstance(chunk, Mapping):
            return
        self._usage = _usage(optional_object(chunk, "usage")) or self._usage
        for choice in _objects(chunk.get("choices"))[:1]:
            # Some servers repeat the whole message beside every delta.
            delta = optional_object(choice, "delta" if choice.get("delta") is not None else "message") or {}
            for event in pieces_of(delta):
                self._counted(event.text)
                if isinstance(event, TextDelta):
                    self._spoken = self._spoken or not event.text.isspace()
                yield event
            for call in _objects(delta.get("tool_calls")):
                function = optional_object(call, "function") or {}
                yield from self._read_call(text(call, "id") or "", integer(call, "index"), function)
            if function_call := optional_object(delta, "function_call"):
                yield from self._read_call("", None, function_call)
            self.finish = text(choice, "finish_reason") or self.finish

    def end(self) -> Iterator[ModelEvent]:
        """Yield the end of what was read.

        Raises:
            ModelFailedError: if it has no proper end, nothing in it, or was blocked.
        """
        finish = self.finish or ("stop" if self._is_complete_without_finish() else None)
        if finish is None or finish in _NO_END:
            raise ended_badly("the answer ended without a finish reason", begun=self.begun)
        reason = _FINISH_WORDS.get(finish, "stop")
        calls = [call for call in self._calls if call.tool]
        if reason == "content-filter":
            raise ModelFailedError(_FILTERED, "refused")
        if not calls and reason == "tool-calls":
            reason = "stop"
        if not calls and not self._spoken and reason in _EMPTY:
            raise ModelFailedError(HostError(name="UnknownError", message=_EMPTY[reason]), "empty")
        for call in calls:
            yield ToolCallEnded(call.call_id, call.tool, "".join(call.arguments))
        # Some servers end a request for tools with the word for an answer.
        yield Finished("tool-calls" if calls and reason == "stop" else reason, self._usage)

    def _is_complete_without_finish(self) -> bool:
        whole = (call.is_whole or not call.arguments for call in self._calls if call.tool)
        return self.is_complete and self.begun and all(whole)

    def _read_call(self, given_id: str, index: int | None, function: Json) -> Iterator[ModelEvent]:
        name = text(function, "name") or ""
        call = self._call(given_id, index, name)
        if call is None:
            return
        if not call.tool and name:
            call.tool = self._counted(name)
            yield ToolCallBegun(call.call_id, name)
        arguments = function.get("arguments")
        if isinstance(arguments, Mapping):
            arguments = json.dumps(arguments, ensure_ascii=False)
        if isinstance(arguments, str) and arguments:
            call.arguments.append(self._counted(arguments))

    def _call(self, given_id: str, index: int | None, name: str) -> _Call | None:
        """Return the call that a piece belongs to, a new one where it begins one; None for a repeated call.

        Servers leave ids out, or numbers; some give every call the number 0, some a new id to every piece.
        """
        known = next((call for call in self._calls if given_id and call.given_id == given_id), None)
        if known is not None:
            if index is None or known.index is None or known.index == index:
                return known
            self._repeated.add(index)
            return None
        if index in self._repeated:
            return None
        latest = next((call for call in reversed(self._calls) if index is None or call.index == index), None)
        if latest is not None and not _begins_another(latest, given_id, name):
            return latest
        if len(self._calls) >= MAX_CALLS:
            raise ended_badly(f"the answer asks for more than {MAX_CALLS} tools", begun=self.begun)
        call = _Call(given_id or self._new_call_id(), given_id, index)
        self._calls.append(call)
        return call

    def _counted(self, piece: str) -> str:
        self._length += len(piece)
        self.begun = True
        if self._length > MAX_ANSWER:
            raise ended_badly(f"the answer is longer than {MAX_ANSWER} characters", begun=True)
        return piece


def pieces_of(delta: Json) -> Iterator[TextDelta | ReasoningDelta]:
    """Yield the thoughts and the text of a delta or message, however they are spelled."""
    if thought := text(delta, "reasoning_content") or text(delta, "reasoning"):
        yield ReasoningDelta(thought)
    else:
        yield from _said_in(delta.get("reasoning_details"), ReasoningDelta)
    yield from _said_in(delta.get("content"), TextDelta)
    if refusal := text(delta, "refusal"):
        yield TextDelta(refusal)


def _said_in(
    content: object, kind: type[TextDelta | ReasoningDelta], depth: int = 0
) -> Iterator[TextDelta | ReasoningDelta]:
    """Yield what stands in a string, in a part ``{type, text}``, or in a list of them."""
    if isinstance(content, str) and content:
        yield kind(content)
    elif isinstance(content, list) and depth < MAX_DEPTH:
        for each in content:
            yield from _said_in(each, kind, depth + 1)
    elif isinstance(content, Mapping) and depth < MAX_DEPTH:
        if (text(content, "type") or "").startswith(("thinking", "reasoning")):
            kind = ReasoningDelta
        said = (content.get(key) for key in ("text", "thinking", "refusal", "summary"))
        yield from _said_in(next(filter(None, said), None), kind, depth + 1)


def _begins_another(latest: _Call, given_id: str, name: str) -> bool:
    """Tell whether a piece begins a call of its own, and does not go on with the latest of its place."""
    if not name or not latest.tool:
        return False
    return bool(given_id) or name != latest.tool or latest.is_whole


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
