"""Normalised events: what a host says, free of its spelling.

Times are seconds since the epoch. ``sequence`` numbers the events of one host connection in the order the
host emitted them; hosts that cannot tell leave it None.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from fallback_plugin.model_ref import ModelRef


@dataclass(frozen=True, slots=True, kw_only=True)
class HostError:
    """An error as the host reports it, not yet classified.

    ``name`` is the host's error class (``APIError``, ``MessageAbortedError``, …). ``response_body`` is the
    provider's raw text; ``response_headers`` have lower-case names. Neither may be logged at info level.
    """

    name: str
    message: str = ""
    status_code: int | None = None
    is_retryable: bool | None = None
    response_body: str | None = None
    response_headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_abort(self) -> bool:
        """Whether the run was aborted, by anyone."""
        return self.name == "MessageAbortedError"


@dataclass(frozen=True, slots=True, kw_only=True)
class UserMessage:
    """A user's message, and everything a replay of its turn must carry over."""

    id: str
    session_id: str
    model: ModelRef
    created_at: float
    agent: str | None = None
    system: str | None = None
    tools: Mapping[str, bool] | None = None
    format: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AssistantMessage:
    """One step of an answer. A turn with tools has several, all with the same ``parent_id``.

    ``tokens`` is how many the model's context holds after the step, 0 as long as the host does not say.
    """

    id: str
    session_id: str
    parent_id: str
    model: ModelRef
    created_at: float
    agent: str | None = None
    finish: str | None = None
    completed: bool = False
    error: HostError | None = None
    tokens: int = 0


Message: TypeAlias = UserMessage | AssistantMessage


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A piece of a message. ``raw`` is the host's own object, to be sent again unchanged."""

    id: str
    message_id: str
    session_id: str
    type: str
    text: str | None = None
    synthetic: bool = False
    tool: str | None = None
    tool_status: Literal["pending", "running", "completed", "error"] | None = None
    raw: Mapping[str, Any] = field(default_factory=dict)


Ending: TypeAlias = Literal["refused", "empty", "cut", "silent", "broken"]
"""How a request to a model ended: with an error, properly and with nothing in it, with nothing in it and no
proper end, by being given up since nothing came, or without a proper end after its answer had begun."""


@dataclass(frozen=True, slots=True)
class LastRequest:
    """The last request behind an answer: the model it was sent to, and what it failed of if it did."""

    model: ModelRef
    error: HostError | None = None
    ending: Ending = "refused"


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredMessage:
    """A message with its parts, as the host's history holds it.

    ``last_request`` is what a host knows beside its history of a turn that it was asked to run: it names one
    model as the author of an answer that another has given.
    """

    info: Message
    parts: tuple[Part, ...] = ()
    last_request: LastRequest | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Anything a host tells. An event type this package does not know arrives as a bare `Event`.

    ``type`` is the host's own word for it.
    """

    type: str
    session_id: str | None = None
    sequence: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionEvent(Event):
    """An event of one session."""

    session_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionCreated(SessionEvent):
    """A session began; ``parent_id`` names the session whose tool started it."""

    parent_id: str | None = None
    created_at: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionDeleted(SessionEvent):
    """A session is gone; nothing may be sent to it any more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionStatus(SessionEvent):
    """What a session's run is doing.

    With ``status == "retry"`` the host waits to ask the same model again: ``attempt`` counts from 1,
    ``message`` is the provider's text and ``next_at`` the time of that request.
    """

    status: Literal["busy", "idle", "retry"]
    attempt: int = 0
    message: str = ""
    next_at: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionIdle(SessionEvent):
    """A run ended, well or not. Hosts emit it more than once for one run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionAbortRequested(SessionEvent):
    """Somebody other than us asked the host to stop the session's run, whether there is one or not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelRequested(SessionEvent):
    """The host is about to ask a model on a message of the user's, for one step of its turn."""

    message_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionError(SessionEvent):
    """A run failed. Hosts name neither the model nor the message here."""

    error: HostError


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionCompacted(SessionEvent):
    """The host shortened the session's history."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageUpdated(SessionEvent):
    """A message was created or changed; hosts repeat it unchanged as well."""

    message: Message


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageRemoved(SessionEvent):
    """A message left the history."""

    message_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MessagePartUpdated(SessionEvent):
    """A part was created or changed."""

    part: Part


@dataclass(frozen=True, slots=True, kw_only=True)
class MessagePartDelta(SessionEvent):
    """Text was appended to a part. Deltas may be merged or dropped under pressure; all others never."""

    message_id: str
    part_id: str
    delta: str
