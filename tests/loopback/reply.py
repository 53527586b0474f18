"""What a scripted provider does with one request: a reply is a tuple of steps, carried out in order."""

import json
from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias


class Gate:
    """A point in a reply where the provider waits until a test opens it, or the client goes away."""

    def __init__(self) -> None:
        self.opened: Final[Future[None]] = Future()

    def open(self) -> None:
        """Let the reply go on; may be called from any thread, and more than once."""
        if not self.opened.done():
            self.opened.set_result(None)


@dataclass(frozen=True, slots=True)
class Pause:
    """A time the provider takes before it goes on."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Answer:
    """A whole answer that is no stream."""

    status: int
    body: str
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Head:
    """The status line and headers of a stream, which the end of the connection ends, or its last chunk.

    Without chunks a stream is whole for its client however its connection ended, by a reset too (Bun 1.3).
    Providers send chunks: only such a stream can be seen to break off.
    """

    chunked: bool = False


@dataclass(frozen=True, slots=True)
class Data:
    """One ``data:`` line of a stream."""

    text: str


@dataclass(frozen=True, slots=True)
class Close:
    """The end of the connection: clean, before the last chunk, or by a TCP reset."""

    reset: bool = False
    early: bool = False


Step: TypeAlias = Answer | Head | Data | Gate | Pause | Close
Reply: TypeAlias = tuple[Step, ...]
Wait: TypeAlias = Gate | Pause

_ERRORS: Final = {
    400: ("invalid_request_error", "Invalid value for 'messages'."),
    401: ("authentication_error", "Incorrect API key provided."),
    402: ("billing_error", "Insufficient credits."),
    404: ("not_found_error", "The model does not exist."),
    429: ("rate_limit_error", "Rate limit reached for requests"),
    503: ("server_error", "The server is overloaded."),
}


def error_body(message: str, kind: str = "server_error") -> str:
    """Write an error the way OpenAI does."""
    return json.dumps({"error": {"message": message, "type": kind, "param": None, "code": None}})


def status(code: int, message: str | None = None, headers: Mapping[str, str] | None = None) -> Reply:
    """Refuse the request with an HTTP status and an OpenAI error, by default with its usual text."""
    kind, text = _ERRORS.get(code, ("server_error", f"The provider answers {code}."))
    return (Answer(code, error_body(message or text, kind), headers or {}),)


def stream(*pieces: str | Wait, finish: str = "stop") -> Reply:
    """Stream text, piece by piece, to a proper end. Without any text it is an empty answer."""
    return (*_started(pieces), _delta({}, finish), _USAGE, Data("[DONE]"), Close())


def thinking(*thoughts: str, answer: str = "", finish: str = "stop") -> Reply:
    """Think, then answer. Without an answer it is a proper end without a word."""
    return (
        Head(),
        *(_delta({"role": "assistant", "reasoning_content": thought}) for thought in thoughts),
        *([_delta({"content": answer})] if answer else []),
        _delta({}, finish),
        _USAGE,
        Data("[DONE]"),
        Close(),
    )


def done_only() -> Reply:
    """Say that the stream is over, and nothing else."""
    return (Head(), Data("[DONE]"), Close())


def tool_call(name: str, arguments: Mapping[str, Any], call_id: str = "call_1") -> Reply:
    """Ask for one tool and end the step."""
    call = {
        "index": 0,
        "id": call_id,
        "type": "function",
        "function": {"name": name, "arguments": json.dumps(arguments)},
    }
    return (
        Head(),
        _delta({"role": "assistant", "tool_calls": [call]}),
        _delta({}, "tool_calls"),
        _USAGE,
        Data("[DONE]"),
        Close(),
    )


def error_object(*pieces: str | Wait, message: str = "Overloaded", chunked: bool = False) -> Reply:
    """Put an error object into a 200 stream: as the first chunk, or after some text."""
    return (*_started(pieces, chunked=chunked), Data(error_body(message)), Close())


def cut(*pieces: str | Wait, chunked: bool = False) -> Reply:
    """End the stream cleanly without a finish reason."""
    return (*_started(pieces, chunked=chunked), Close())


def reset(*pieces: str | Wait, chunked: bool = False) -> Reply:
    """Reset the connection: before any header, or after some text."""
    return (*(_started(pieces, chunked=chunked) if pieces else ()), Close(reset=True))


def closed_early(*pieces: str | Wait, finish: str | None = None) -> Reply:
    """Close the connection where more was announced: after some text, or after its proper end."""
    end = () if finish is None else (_delta({}, finish),)
    return (*_started(pieces, chunked=True), *end, Close(early=True))


def hang_before_headers() -> Reply:
    """Accept the request and say nothing until the client goes away."""
    return (Gate(), Close())


def hang(*pieces: str) -> Reply:
    """Fall silent after the headers, or after some text, until the client goes away."""
    return (*_started(pieces), Gate(), Close())


def _started(pieces: tuple[str | Wait, ...], *, chunked: bool = False) -> Reply:
    return (
        Head(chunked),
        *(
            piece if isinstance(piece, Gate | Pause) else _delta({"role": "assistant", "content": piece})
            for piece in pieces
        ),
    )


def _chunk(choices: list[dict[str, Any]], **more: object) -> Data:
    shape = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 0, "model": "scripted"}
    return Data(json.dumps({**shape, "choices": choices, **more}))


def _delta(delta: Mapping[str, Any], finish: str | None = None) -> Data:
    return _chunk([{"index": 0, "delta": delta, "finish_reason": finish}])


_USAGE: Final = _chunk([], usage={"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15})
