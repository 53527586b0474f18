"""What the host keeps: sessions, runs, messages, and events, as plain values.

Times are seconds since the epoch. A *run* is one prompt's life from its acceptance to its one terminal event.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from fallback_plugin.model_ref import ModelRef

Json: TypeAlias = Mapping[str, Any]

RunState: TypeAlias = Literal["accepted", "queued", "active", "held", "ended"]
"""``held``: accepted before a restart and never begun; a person sends or discards it."""

TitledBy: TypeAlias = Literal["host", "model", "person"]
"""Who gave a session its title; a model's never replaces a person's."""

Outcome: TypeAlias = Literal["completed", "failed", "cancelled", "interrupted", "folded", "discarded"]
"""``interrupted`` by a restart; ``folded`` into the run it steered; ``discarded`` by a person while held."""

Delivery: TypeAlias = Literal["queue", "steer"]
"""Whether a prompt for a busy session waits its turn or joins the active one between two steps."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UserPrompt:
    """A prompt as it was handed in; ``parts`` are OpenCode's (``{type: text | file, …}``).

    Attributes:
        message_id: the id the person's message shall have; None lets the host choose.
        instead_of: the model whose place another took, by a plugin's choice or since it is gone.
        client_key: what makes a repeated request the same one, by default the ``message_id``.
        no_reply: whether only the message is stored and no model asked.
    """

    parts: tuple[Json, ...]
    message_id: str | None = None
    model: ModelRef | None = None
    agent: str | None = None
    system: str | None = None
    tools: Mapping[str, bool] | None = None
    format: Json | None = None
    no_reply: bool = False
    delivery: Delivery = "queue"
    instead_of: ModelRef | None = None
    client_key: str | None = None

    @property
    def text(self) -> str:
        """The words of the prompt, without its files."""
        return "\n".join(str(part.get("text", "")) for part in self.parts if part.get("type") == "text")


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """A session. ``revision`` grows with every undo or other loss of messages.

    Attributes:
        model: the model that its last prompt was for, also where another took its place.
        continues: the session whose compacted history this one carries on.
        continued_by: the session that carries this one's on; prompts for this one go there.
        reverted_to: the message from which on everything is hidden until the next prompt deletes it.
    """

    id: str
    directory: str
    title: str
    created_at: float
    updated_at: float
    revision: int = 0
    parent_id: str | None = None
    agent: str | None = None
    model: ModelRef | None = None
    continues: str | None = None
    continued_by: str | None = None
    reverted_to: str | None = None
    titled_by: TitledBy = "host"


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """A run. ``sequence`` numbers acceptances over all sessions; ``writer`` is the token its writes carry."""

    id: str
    session_id: str
    sequence: int
    message_id: str
    prompt: UserPrompt
    accepted_at: float
    state: RunState = "accepted"
    outcome: Outcome | None = None
    error: Json | None = None
    writer: str | None = None
    started_at: float | None = None
    ended_at: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredEvent:
    """An event that is a row: its place in the log, and OpenCode's ``type`` and ``properties``."""

    sequence: int
    session_id: str | None
    type: str
    properties: Json
    run_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PassingEvent:
    """An event that is no row: a part's growing text, a toast. Whoever was not there does not hear of it.

    Attributes:
        part_id: the part whose text grows, for ``message.part.delta``.
        end: how many characters the part's text has with this delta.
    """

    session_id: str | None
    type: str
    properties: Json
    part_id: str | None = None
    end: int = 0


HostEvent: TypeAlias = StoredEvent | PassingEvent
"""What the host tells those who listen."""
