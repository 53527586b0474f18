"""A journal in memory that records what happened, in order, and refuses what the real one has to refuse."""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Literal, TypeAlias

import anyio

from fallback_plugin.agent.protocols import Accepted, StatusWord
from fallback_plugin.agent.records import Json, Outcome, Run, RunState, UserPrompt
from fallback_plugin.errors import AgentError, FencedError, StoreError

Kind: TypeAlias = Literal["accepted", "queued", "active", "ended", "status"]


@dataclass(frozen=True, slots=True)
class Written:
    """One event of the log: a state of a run, or a session's status."""

    kind: Kind
    session_id: str
    run_id: str | None = None
    word: str | None = None


@dataclass(slots=True)
class Message:
    """A message of the history; an answer has the ``finish`` of its run once that has ended."""

    session_id: str
    role: str
    run_id: str
    text: str
    finish: str | None = None


async def _at_once() -> None:
    """Take no time."""


def _never(_name: str) -> bool:
    return False


@dataclass(slots=True)
class RecordingJournal:
    """Keeps sessions, runs, messages and events.

    ``pause`` is awaited inside each call, before it takes effect, and ``pause_reading`` in one that only
    reads; ``refuse`` names calls that fail, and so does ``fails``. ``is_full`` lets all that write fail for a
    while, as a full disk does, and ``full_for`` those it names.
    """

    sessions: set[str] = field(default_factory=lambda: {"s"})
    runs: dict[str, Run] = field(default_factory=dict)
    messages: list[Message] = field(default_factory=list)
    events: list[Written] = field(default_factory=list)
    stops: list[str] = field(default_factory=list)
    continued: dict[str, str] = field(default_factory=dict)
    refuse: set[str] = field(default_factory=set)
    fails: Callable[[str], bool] = _never
    is_full: bool = False
    full_for: set[str] = field(default_factory=set)
    pause: Callable[[], Awaitable[None]] = _at_once
    pause_reading: Callable[[], Awaitable[None]] = _at_once
    _answers: dict[str, list[Message]] = field(default_factory=dict)
    _in_order: anyio.Lock = field(default_factory=anyio.Lock)
    _writers: int = 0

    async def ids_of(self, session_id: str) -> Sequence[str]:
        await self.pause_reading()
        if session_id not in self.sessions:
            raise AgentError(f"there is no session {session_id}", status=404)
        ids = [self.newest(session_id)]
        earlier = {new: old for old, new in self.continued.items()}
        while ids[0] in earlier:
            ids.insert(0, earlier[ids[0]])
        return ids

    async def accept(self, session_id: str, prompt: UserPrompt, sequence: int) -> Accepted:
        async with self._call("accept"):
            if session_id not in self.sessions:
                raise AgentError(f"there is no session {session_id}", status=404)
            if prompt.client_key is not None:
                for run in self.runs.values():
                    if run.prompt.client_key == prompt.client_key:
                        return Accepted(run, is_new=False)
            session_id = self.newest(session_id)
            run = Run(
                id=f"run_{sequence}",
                session_id=session_id,
                sequence=sequence,
                message_id=prompt.message_id or f"msg_{sequence}",
                prompt=prompt,
                accepted_at=0.0,
            )
            self._put(run, "accepted")
            return Accepted(run, is_new=True)

    async def queue(self, run: Run) -> None:
        async with self._call("queue"):
            self._put(replace(self._open(run), state="queued"), "queued")

    async def activate(self, run: Run) -> Run:
        async with self._call("activate"):
            self._writers += 1
            active = replace(self._open(run), prompt=run.prompt, state="active", writer=f"w{self._writers}")
            self._put(active, "active")
            self._say(run, "user", run.prompt.text)
            return active

    async def cancel(self, runs: Sequence[Run]) -> None:
        async with self._call("cancel"):
            for run in [self._open(run) for run in runs]:
                self._say(run, "user", run.prompt.text)
                self._say(run, "assistant", "")
                self._end(run, "cancelled")

    async def fold(self, runs: Sequence[Run], into: Run) -> None:
        async with self._call("fold"):
            into = self.check(into)
            for run in runs:
                self._say(into, "user", run.prompt.text)
                self._end(self._open(run), "folded")

    async def note_stop(self, run: Run) -> None:
        async with self._call("note_stop"):
            if self.runs[run.id].state != "ended":
                self.stops.append(run.id)

    async def send(self, run_id: str, sequence: int) -> Run:
        async with self._call("send"):
            run = replace(self._held(run_id), state="accepted", sequence=sequence)
            self._put(run, "accepted")
            return run

    async def discard(self, run_id: str, *, waiting: bool = False) -> Run:
        async with self._call("discard"):
            self._end(self._open(self.runs[run_id]) if waiting else self._held(run_id), "discarded")
            return self.runs[run_id]

    async def end(self, run: Run, outcome: Outcome, error: Json | None = None) -> bool:
        async with self._call("end"):
            stored = self.runs[run.id]
            if stored.state == "ended":
                return False
            if stored.state in ("accepted", "queued"):
                self._say(run, "user", run.prompt.text)
            self._answer(stored)
            self._end(stored, outcome, error)
            return True

    async def status(self, ids: Sequence[str], status: StatusWord) -> None:
        async with self._call("status"):
            self.events += [Written("status", session_id, word=status) for session_id in ids]

    async def write(self, run: Run, text: str) -> None:
        """Add an answer in the name of a turn."""
        async with self._call("write"):
            self._say(self.check(run), "assistant", text)

    async def finish(self, run: Run, outcome: Outcome) -> None:
        """End a turn in its own name."""
        async with self._call("finish"):
            stored = self.check(run)
            self._answer(stored)
            self._end(stored, outcome)

    async def continue_in(self, run: Run, session_id: str) -> Run:
        """Let a turn and the prompts that wait go on in a new session."""
        async with self._call("continue_in"):
            old_id = self.check(run).session_id
            self.sessions.add(session_id)
            self.continued[old_id] = session_id
            for each in list(self.runs.values()):
                if each.session_id == old_id and each.state != "ended":
                    self.runs[each.id] = replace(each, session_id=session_id)
            return self.runs[run.id]

    async def erase(self, session_id: str) -> None:
        """Delete a session and whatever belongs to it."""
        async with self._call("erase"):
            self.sessions.discard(session_id)
            self.messages = [message for message in self.messages if message.session_id != session_id]
            for run in [run for run in self.runs.values() if run.session_id == session_id]:
                del self.runs[run.id]

    def check(self, run: Run) -> Run:
        """Refuse what a run may no longer write; return it as it stands."""
        stored = self.runs.get(run.id)
        if stored is None or stored.state != "active" or stored.writer != run.writer:
            raise FencedError(f"run {run.id} may not write")
        return stored

    def newest(self, session_id: str) -> str:
        """Return the id under which a session goes on."""
        while session_id in self.continued:
            session_id = self.continued[session_id]
        return session_id

    def hold(self, text: str, session_id: str = "s") -> Run:
        """Return a run as recovery leaves it after a restart."""
        prompt = UserPrompt(parts=({"type": "text", "text": text},))
        run = Run(
            id=f"held_{text}",
            session_id=self.newest(session_id),
            sequence=0,
            message_id=f"msg_{text}",
            prompt=prompt,
            accepted_at=0.0,
            state="held",
        )
        self.runs[run.id] = run
        return run

    def outcomes(self, session_id: str | None = None) -> list[tuple[str, str]]:
        """Return the words of each ended run's prompt and how it ended, in the order of the ends."""
        return [
            (self.runs[event.run_id].prompt.text, event.word)
            for event in self.events
            if event.kind == "ended"
            and event.run_id in self.runs
            and event.word is not None
            and session_id in (None, event.session_id)
        ]

    def history(self, session_id: str = "s") -> list[tuple[str, str]]:
        """Return who said what; of an answer without words, how it ended."""
        return [
            (message.role, message.text or f"[{message.finish}]")
            for message in self.messages
            if message.session_id == session_id
        ]

    def statuses(self, session_id: str = "s") -> list[str]:
        return [
            event.word
            for event in self.events
            if event.kind == "status" and event.session_id == session_id and event.word is not None
        ]

    def states(self) -> dict[str, RunState]:
        return {run.prompt.text: run.state for run in self.runs.values()}

    @asynccontextmanager
    async def _call(self, name: str) -> AsyncIterator[None]:
        async with self._in_order:
            await self.pause()
            if self.is_full or name in self.full_for:
                raise StoreError(f"{name}: the disk is full", status=507, may_pass=True)
            if name in self.refuse or self.fails(name):
                raise StoreError(f"{name}: the disk is full")
            yield

    def _open(self, run: Run) -> Run:
        stored = self.runs.get(run.id)
        if stored is None or stored.state not in ("accepted", "queued"):
            raise FencedError(f"run {run.id} has begun, ended or is gone")
        return stored

    def _held(self, run_id: str) -> Run:
        run = self.runs.get(run_id)
        if run is None or run.state != "held":
            raise AgentError(f"run {run_id} is not held", status=404 if run is None else 409)
        return run

    def _put(self, run: Run, kind: Kind) -> None:
        self.runs[run.id] = run
        self.events.append(Written(kind, run.session_id, run.id))

    def _say(self, run: Run, role: str, text: str) -> None:
        message = Message(run.session_id, role, run.id, text)
        self.messages.append(message)
        if role == "assistant":
            self._answers.setdefault(run.id, []).append(message)

    def _answer(self, run: Run) -> None:
        if run.id not in self._answers:
            self._say(run, "assistant", "")

    def _end(self, run: Run, outcome: Outcome, error: Json | None = None) -> None:
        self.runs[run.id] = replace(run, state="ended", outcome=outcome, error=error, writer=None)
        for message in self._answers.get(run.id, ()):
            message.finish = outcome
        self.events.append(Written("ended", run.session_id, run.id, outcome))
