"""A coding agent in memory: its sessions run one turn each, in one of three ways."""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeAlias

import anyio

from fallback_plugin.errors import HostCallError
from fallback_plugin.events import StoredMessage
from fallback_plugin.host_client import HostKind, Receipt, SessionInfo
from fallback_plugin.model_ref import ModelRef
from fallback_plugin.wire.message import write_model
from fallback_plugin.wire.model_catalog import EVERYTHING, ModelCatalog
from fallback_plugin.wire.prompt import Prompt
from fallback_plugin.wire.toast import Toast

PRIMARY: Final = ModelRef("fake", "primary")

Case: TypeAlias = Literal["healthy", "switched", "mid-switch"]


@dataclass
class FakeAgent:
    """Publishes what a real one does. Ids are as long as the real ones.

    While ``stopped`` is not None aborts wait for it, and then fail. ``publish`` takes each event's JSON and
    its sequence.
    """

    stopped: anyio.Event | None = None
    kind: HostKind = "serve"
    directory: str = "/project"
    now: float = 1_000_000.0
    sequence: int = 0
    messages_made: int = 0
    turns: dict[str, tuple[str, str]] = field(default_factory=dict)
    publish: Callable[[dict[str, Any], int], None] = field(init=False)

    async def abort(self, session_id: str, *, after: int | None = None, run_over: bool = False) -> Receipt:  # noqa: ARG002 -- the protocol's
        """Stop a retry wait, as the real host does it."""
        sent_after = self.sequence
        if self.stopped is not None:
            await self.stopped.wait()
            raise HostCallError("the agent is gone")
        turn, stub = self.turns.pop(session_id)
        self.answer(session_id, turn, stub, PRIMARY, time={"created": self.ms, "completed": self.ms})
        self.idle(session_id)
        return Receipt(sent_after, self.sequence)

    async def prompt(self, session_id: str, prompt: Prompt, *, after: int | None = None) -> Receipt:  # noqa: ARG002 -- the protocol's
        """Answer the turn with the new model."""
        assert prompt.message_id is not None
        self.ask(session_id, prompt.message_id, prompt.model)
        self.succeed(session_id, prompt.message_id, prompt.model)
        return Receipt()

    async def session(self, session_id: str) -> SessionInfo:
        """Look a session up."""
        return SessionInfo(id=session_id)

    async def messages(self, session_id: str) -> list[StoredMessage]:
        """Fail: no case needs it."""
        raise HostCallError(f"{session_id} needs no look at its history")

    async def models(self) -> ModelCatalog:
        """Say nothing of its models."""
        return EVERYTHING

    async def run_turn(self, session_id: str, prompt: Prompt, *, deadline_s: float) -> StoredMessage:
        """Not asked for in any benchmark."""
        raise NotImplementedError

    async def give_up(self, session_id: str, agent: str | None, *, flowing: bool = False) -> None:
        """Not asked for in any benchmark."""
        raise NotImplementedError

    async def unrevert(self, session_id: str) -> None:
        """Refuse: nothing was hidden."""
        raise HostCallError(f"{session_id} hides nothing")

    async def revert(self, session_id: str, message_id: str) -> None:
        """Fail: no case needs it."""
        raise HostCallError(f"{session_id} needs no revert to {message_id}")

    async def delete_message(self, session_id: str, message_id: str) -> None:
        """Fail: no case needs it."""
        raise HostCallError(f"{session_id} need not lose {message_id}")

    async def toast(self, toast: Toast, *, session_id: str | None = None, after: int | None = None) -> None:
        """Show it to nobody."""

    @property
    def ms(self) -> float:
        """The time in the host's unit."""
        return 1000 * self.now

    def clock(self) -> float:
        """Return the seconds since the epoch."""
        return self.now

    def begin(self, case: Case, session_id: str) -> None:
        """Start a session and a turn that goes as the case says."""
        self.emit(session_id, "session.created", info={"id": session_id, "title": "A session"})
        turn = self.message_id()
        self.ask(session_id, turn, PRIMARY)
        if case == "healthy":
            self.succeed(session_id, turn, PRIMARY)
            return
        stub = self.message_id()
        if case == "switched":
            self.turns[session_id] = turn, stub
        self.answer(session_id, turn, stub, PRIMARY)
        retry = {"type": "retry", "attempt": 1, "message": "Rate limit reached", "next": self.ms + 2000}
        self.emit(session_id, "session.status", status=retry)

    def delete(self, session_id: str) -> None:
        """End a session for good."""
        self.emit(session_id, "session.deleted", info={"id": session_id})

    def ask(self, session_id: str, turn: str, model: ModelRef) -> None:
        """Publish a message of the user's."""
        named = {"agent": "build", "model": write_model(model), "time": {"created": self.ms}}
        self.emit(session_id, "message.updated", info={"id": turn, "role": "user", **named})
        self.emit(session_id, "session.status", status={"type": "busy"})

    def succeed(self, session_id: str, turn: str, model: ModelRef) -> None:
        """Publish a good answer."""
        answer = self.message_id()
        self.answer(session_id, turn, answer, model)
        part = {"id": f"prt{answer[3:]}", "messageID": answer, "type": "text", "text": "All well."}
        self.emit(session_id, "message.part.updated", part={**part, "sessionID": session_id})
        done = {"created": self.ms, "completed": self.ms}
        self.answer(session_id, turn, answer, model, finish="stop", time=done)
        self.idle(session_id)

    def answer(self, session_id: str, turn: str, answer: str, model: ModelRef, **info: object) -> None:
        """Publish the state of an answer."""
        named = {"agent": "build", "providerID": model.provider, "modelID": model.model}
        own = {"id": answer, "role": "assistant", "parentID": turn, "time": {"created": self.ms}}
        self.emit(session_id, "message.updated", info={**own, **named, **info})

    def idle(self, session_id: str) -> None:
        """Publish the end of a run."""
        self.emit(session_id, "session.status", status={"type": "idle"})
        self.emit(session_id, "session.idle")

    def emit(self, session_id: str, kind: str, **properties: Any) -> None:  # noqa: ANN401 -- the host's JSON
        """Publish an event, read from text as it comes through the pipe."""
        if "info" in properties:
            properties["info"]["sessionID"] = session_id
        self.sequence += 1
        event = {"type": kind, "properties": {"sessionID": session_id, **properties}}
        self.publish(json.loads(json.dumps(event)), self.sequence)

    def message_id(self) -> str:
        """Return the next id of a message."""
        self.messages_made += 1
        return f"msg_{self.messages_made:026}"
