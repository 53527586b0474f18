"""A store of sessions in memory, and the journal of a turn on it: what the real ones promise, diskless."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from fallback_plugin.agent.identifiers import new_id
from fallback_plugin.agent.records import Json, Outcome, Run, Session, UserPrompt
from fallback_plugin.errors import AgentError, FencedError
from fallback_plugin.model_ref import ModelRef
from fallback_plugin.wire.message import write_model


@dataclass(slots=True)
class StoredEnd:
    outcome: Outcome
    error: Json | None


class MemoryStore:
    """Sessions with their messages in order; ``log`` tells every write, ``durable`` the parts waited for."""

    def __init__(self, directory: str) -> None:
        self.directory = directory
        self.sessions: dict[str, Session] = {}
        self.messages: dict[str, list[dict[str, Any]]] = {}
        self.log: list[tuple[str, Any]] = []
        self.ends: dict[str, StoredEnd] = {}

    def new_session(self) -> str:
        session_id = new_id("ses")
        self.sessions[session_id] = Session(
            id=session_id, directory=self.directory, title="New", created_at=0, updated_at=0
        )
        self.messages[session_id] = []
        return session_id

    def accept(self, session_id: str, text: str, model: ModelRef | None = None, **more: Any) -> Run:
        """Return the run of a prompt."""
        return Run(
            id=new_id("run"),
            session_id=session_id,
            sequence=1,
            message_id=new_id("msg"),
            prompt=UserPrompt(parts=({"type": "text", "text": text},), model=model, **more),
            accepted_at=0,
        )

    def activate(self, run: Run) -> Run:
        """Store a run's message, as the dispatcher does."""
        place = {"messageID": run.message_id, "sessionID": run.session_id}
        info = {
            "id": run.message_id,
            "sessionID": run.session_id,
            "role": "user",
            "time": {"created": 0},
            "agent": "build",
            "model": write_model(run.prompt.model) if run.prompt.model else {},
        }
        parts = [{"id": new_id("prt"), **place, **part} for part in run.prompt.parts]
        self.messages[run.session_id].append({"info": info, "parts": parts})
        return replace(run, state="active")

    def ask(self, session_id: str, text: str, model: ModelRef | None = None, **more: Any) -> Run:
        """Return an active run."""
        return self.activate(self.accept(session_id, text, model, **more))

    async def session(self, session_id: str) -> Session:
        if session_id not in self.sessions:
            raise AgentError(f"Session not found: {session_id}", status=404)
        return self.sessions[session_id]

    async def history(self, session_id: str) -> Sequence[Json]:
        return [{"info": each["info"], "parts": list(each["parts"])} for each in self.messages[session_id]]

    def answers(self, session_id: str) -> list[dict[str, Any]]:
        """Return the stored answers, oldest first."""
        return [each for each in self.messages[session_id] if each["info"]["role"] == "assistant"]

    def text(self, session_id: str) -> str:
        """Return what all answers say."""
        return "".join(
            part["text"]
            for answer in self.answers(session_id)
            for part in answer["parts"]
            if part["type"] == "text"
        )

    def tool_states(self, session_id: str) -> list[Mapping[str, Any]]:
        """Return how every tool stands."""
        return [
            part["state"]
            for answer in self.answers(session_id)
            for part in answer["parts"]
            if part["type"] == "tool"
        ]


@dataclass(slots=True)
class MemoryJournal:
    """A run's journal; ``fenced`` takes its token away."""

    store: MemoryStore
    run: Run
    fenced: bool = False
    deltas: list[str] = field(default_factory=list)

    async def put_message(self, info: Json) -> None:
        self._check("put_message", info)
        stored = self._message(info["id"])
        if stored is None:
            self._messages.append({"info": dict(info), "parts": []})
        else:
            stored["info"] = dict(info)

    async def remove_message(self, message_id: str) -> None:
        self._check("remove_message", message_id)
        self._messages[:] = [each for each in self._messages if each["info"]["id"] != message_id]

    async def put_part(self, part: Json, *, durable: bool = True) -> None:
        self._check("put_part" if durable else "put_part soon", part)
        stored = self._message(part["messageID"])
        assert stored is not None, "a part has a message"
        for place, old in enumerate(stored["parts"]):
            if old["id"] == part["id"]:
                stored["parts"][place] = dict(part)
                return
        stored["parts"].append(dict(part))

    async def append(self, part_id: str, field: str, delta: str) -> None:
        self._check("append", (part_id, delta))
        self.deltas.append(delta)
        (part,) = [part for each in self._messages for part in each["parts"] if part["id"] == part_id]
        part[field] += delta

    async def continue_in(self, session_id: str, opening: Sequence[Json]) -> Run:
        self._check("continue_in", session_id)
        old = self.store.sessions[self.run.session_id]
        self.store.sessions[old.id] = replace(old, continued_by=session_id)
        self.store.sessions[session_id] = replace(old, id=session_id, continues=old.id)
        self.store.messages[session_id] = [
            {"info": dict(each["info"]), "parts": [dict(part) for part in each["parts"]]} for each in opening
        ]
        self.run = replace(self.run, session_id=session_id, message_id=opening[-1]["info"]["id"])
        return self.run

    async def finish(self, info: Json | None, outcome: Outcome, error: Json | None = None) -> None:
        if info is not None:
            await self.put_message(info)
        self._check("finish", outcome)
        assert self.run.id not in self.store.ends, "a run ends once"
        self.store.ends[self.run.id] = StoredEnd(outcome, error)
        self.fenced = True

    @property
    def _messages(self) -> list[dict[str, Any]]:
        return self.store.messages[self.run.session_id]

    def _message(self, message_id: str) -> dict[str, Any] | None:
        return next((each for each in self._messages if each["info"]["id"] == message_id), None)

    def _check(self, call: str, about: Any) -> None:
        if self.fenced:
            raise FencedError(f"{self.run.id} has ended")
        self.store.log.append((call, about))
