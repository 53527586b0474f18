"""What is asked of a model, and what comes back: plain values, whatever carries them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from fallback_plugin.agent.records import Json

FinishWord: TypeAlias = Literal["stop", "tool-calls", "length", "content-filter"]
"""How an answer ended, in OpenCode's words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelRequest:
    """One request: ``messages`` and ``tools`` as the chat completions API spells them."""

    session_id: str
    messages: Sequence[Json]
    tools: Sequence[Json] = ()


@dataclass(frozen=True, slots=True)
class TextDelta:
    """A piece of the answer."""

    text: str


@dataclass(frozen=True, slots=True)
class ReasoningDelta:
    """A piece of the thinking before it."""

    text: str


@dataclass(frozen=True, slots=True)
class ToolCallBegun:
    """The model asks for a tool; its arguments follow. ``call_id`` is unique in the answer."""

    call_id: str
    tool: str


@dataclass(frozen=True, slots=True)
class ToolCallEnded:
    """The arguments are there: the model's own text, which may not even be JSON."""

    call_id: str
    tool: str
    arguments: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """How many tokens the request took. ``input_tokens`` holds ``cached_tokens``, output reasoning."""

    input_tokens: int = 0
    output_tokens: int = 0
    reasoning_tokens: int = 0
    cached_tokens: int = 0

    @property
    def total(self) -> int:
        """How many tokens the context holds after the answer."""
        return self.input_tokens + self.output_tokens


NO_USAGE: Final = Usage()


@dataclass(frozen=True, slots=True)
class Finished:
    """The proper end of an answer; nothing follows."""

    reason: FinishWord
    usage: Usage = NO_USAGE


ModelEvent: TypeAlias = TextDelta | ReasoningDelta | ToolCallBegun | ToolCallEnded | Finished
