"""Sessions, runs and turns in any order, and kills: nothing acknowledged goes, each run ends once."""

import asyncio
import tempfile
from collections.abc import Awaitable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from fallback_plugin.agent.journal import StoredTurn
from fallback_plugin.agent.records import Run
from fallback_plugin.agent.recovery import OnRestart, recover
from fallback_plugin.agent.store import Rows, events, messages, parts, runs
from fallback_plugin.errors import AgentError, FencedError, StoreError
from tests.agent.persisted import Host, Restarts, answer_info, prompt, text_part, tool_part

T = TypeVar("T")

pytestmark = pytest.mark.timeout(60)

WAITING = frozenset({"accepted", "queued", "held"})


@dataclass
class Known:
    """What a client knows of a run."""

    run: Run
    text: str
    state: str = "accepted"
    turn: StoredTurn | None = None
    said: str = ""
    pending: str = ""
    may_be_gone: bool = False


@dataclass
class KnownSession:
    """What a client knows of a session."""

    id: str
    runs: list[Known] = field(default_factory=list)
    is_deleted: bool = False


class Persistence(RuleBasedStateMachine):
    """Two sessions; a kill is a start on a copy of the files."""

    def __init__(self) -> None:
        super().__init__()
        self._runner = asyncio.Runner()
        self._folder = tempfile.TemporaryDirectory()
        self._restarts = Restarts(Path(self._folder.name))
        self._host: Host
        self._sessions: list[KnownSession] = []
        self._count = 0

    def do(self, work: Awaitable[T]) -> T:
        async def waited() -> T:
            return await work

        return self._runner.run(waited())

    @initialize()
    def begin(self) -> None:
        self._host = self._restarts.first()
        for _ in range(2):
            self._sessions.append(KnownSession(self.do(self._host.session()).id))

    def teardown(self) -> None:
        self._restarts.close()
        self._runner.close()
        self._folder.cleanup()

    def known(self, number: int) -> KnownSession:
        return self._sessions[number % len(self._sessions)]

    def active(self, number: int) -> Known | None:
        return next((known for known in self.known(number).runs if known.state == "active"), None)

    def waiting(self, number: int) -> Known | None:
        """Return the first run that waits and is not held."""
        found = (known for known in self.known(number).runs if known.state in {"accepted", "queued"})
        return next(found, None)

    @rule(number=st.integers(0, 1))
    def accept(self, number: int) -> None:
        session = self.known(number)
        self._count += 1
        text = f"prompt {self._count}"
        accepting = self._host.runs.accept(session.id, prompt(text), self._count)
        try:
            accepted = self.do(accepting)
        except AgentError:
            assert session.is_deleted
            return
        assert not session.is_deleted
        session.runs.append(Known(accepted.run, text))

    @rule(number=st.integers(0, 1))
    def queue(self, number: int) -> None:
        if (known := self.waiting(number)) is not None:
            self.do(self._host.runs.queue(known.run))
            known.state = "queued"

    @rule(number=st.integers(0, 1))
    def activate(self, number: int) -> None:
        if self.waiting(number) is None:
            self.accept(number)
        if (known := self.waiting(number)) is None:
            return
        unended = self.active(number)
        run = self.do(self._host.runs.activate(known.run))
        if unended is not None:
            unended.state = "interrupted"
        known.run, known.state = run, "active"
        known.turn = self.do(begun_turn(self._host, run))

    @rule(number=st.integers(0, 1))
    def cancel_what_waits(self, number: int) -> None:
        if (known := self.waiting(number)) is not None:
            self.do(self._host.runs.cancel([known.run]))
            known.state = "cancelled"

    @rule(number=st.integers(0, 1), text=st.text("ab\ud83d", min_size=1, max_size=3))
    def say(self, number: int, text: str) -> None:
        if (known := self.active(number)) is not None and known.turn:
            self.do(known.turn.append(f"{known.run.id}_text", "text", text))
            known.pending += text.replace("\ud83d", "\N{REPLACEMENT CHARACTER}")

    @rule(number=st.integers(0, 1), status=st.sampled_from(["pending", "running", "completed"]))
    def use_a_tool(self, number: int, status: str) -> None:
        if (known := self.active(number)) is not None and known.turn:
            part = tool_part(f"{known.run.message_id}_answer", f"{known.run.id}_tool", status)
            self.do(known.turn.put_part(part))
            written(known)

    @rule(number=st.integers(0, 1), outcome=st.sampled_from(["completed", "failed", "cancelled"]))
    def finish(self, number: int, outcome: str) -> None:
        if (known := self.active(number)) is not None and known.turn:
            self.do(known.turn.finish(None, outcome))  # type: ignore[arg-type]
            known.state = outcome
            written(known)

    @rule(number=st.integers(0, 1))
    def end_from_outside(self, number: int) -> None:
        if (known := self.active(number)) is not None and known.turn:
            assert self.do(self._host.runs.end(known.run, "cancelled"))
            known.state = "cancelled"
            written(known)

    @rule(number=st.integers(0, 1))
    def write_late(self, number: int) -> None:
        for known in self.known(number).runs:
            if known.run.writer and known.state != "active":
                # A worker that knows nothing of the end, and only has the token.
                late = self.do(late_turn(self._host, known.run))
                with pytest.raises(FencedError):  # I10
                    self.do(late.put_message(answer_info(known.run, "msg_late")))

    @rule(number=st.integers(0, 1))
    def undo(self, number: int) -> None:
        session = self.known(number)
        try:
            undone = self.do(self._host.sessions.undo(session.id))
        except AgentError:
            return
        assert self.active(number) is None
        (gone,) = (known for known in session.runs if known.text == undone.text)
        gone.may_be_gone = True

    @rule(number=st.integers(0, 1))
    def delete(self, number: int) -> None:
        session = self.known(number)
        if session.is_deleted or self._count % 5:
            return
        self.do(self._host.sessions.delete(session.id))
        session.is_deleted = True
        for known in session.runs:
            if known.state in WAITING | {"active"}:
                known.state = "cancelled"

    @rule(number=st.integers(0, 1))
    def fail_to_write(self, number: int) -> None:
        """Try everything on a disk that refuses: nothing changes, and everything can be done after it."""
        session = self.known(number)
        if (active := self.active(number)) is not None and active.turn:
            self.do(flushed(active.turn))
            written(active)
        self._host.store._rows.execute("PRAGMA query_only = ON")
        attempts: list[Awaitable[object]] = [
            self._host.runs.accept(session.id, prompt("refused"), self._count + 1)
        ]
        for known in session.runs:
            attempts += [
                self._host.runs.end(known.run, "failed"),
                self._host.runs.cancel([known.run]),
                self._host.runs.activate(known.run),
            ]
        for attempt in attempts:
            with pytest.raises(StoreError) as refused:
                self.do(attempt)
            assert refused.value.may_pass
        self._host.store._rows.execute("PRAGMA query_only = OFF")

    @precondition(lambda self: self._count > 0)
    @rule(on_restart=st.sampled_from(["ask", "run", "cancel"]))
    def kill(self, on_restart: OnRestart) -> None:
        self._host = self._restarts.after_kill(self._host)
        self.do(recover(self._host.store, self._host.defaults, on_restart=on_restart))
        before = self._host.store.last_event
        self.do(recover(self._host.store, self._host.defaults, on_restart=on_restart))
        assert self._host.store.last_event == before
        fates = {"ask": "held", "run": "accepted", "cancel": "cancelled"}
        for known in (known for session in self._sessions for known in session.runs):
            known.turn = None
            if known.state in {"accepted", "queued"}:
                known.state = fates[on_restart]
            elif known.state == "active":
                known.state = "interrupted"

    @invariant()
    def everything_acknowledged_is_there(self) -> None:
        if self._sessions:
            self.do(self._host.store.read(self._check))

    def _check(self, rows: Rows) -> None:
        log = events.after(rows, 0, limit=100_000).events
        ends = [event.run_id for event in log if event.type == "run.ended"]
        assert len(ends) == len(set(ends))
        for session in self._sessions:
            for known in session.runs:
                run = runs.get(rows, known.run.id)
                assert (run.outcome or run.state) == known.state
                assert (run.id in ends) == (run.outcome is not None)
                assert run.prompt.text == known.text
                if run.outcome and not session.is_deleted and not known.may_be_gone:
                    self._check_messages(rows, known)
        active = {
            known.run.id for session in self._sessions for known in session.runs if known.state == "active"
        }
        for part in parts.open_ones(rows):
            assert messages.get(rows, part.session_id, part.message_id).run_id in active

    def _check_messages(self, rows: Rows, known: Known) -> None:
        own = [
            messages.one(rows, known.run.session_id, row.id)
            for row in messages.of_run(rows, known.run.id, known.run.session_id)
        ]
        question, *answers = own
        assert [part["text"] for part in question["parts"]] == [known.text]
        parents = {entry["info"]["parentID"] for entry in answers}
        assert parents <= {question["info"]["id"]}, "I9: it answers another run's message"
        said = [part["text"] for entry in answers for part in entry["parts"] if part["type"] == "text"]
        text = "".join(said)
        assert text.startswith(known.said)
        assert (known.said + known.pending).startswith(text)


async def begun_turn(host: Host, run: Run) -> StoredTurn:
    turn = host.runs.turn(run)
    answer = f"{run.message_id}_answer"
    await turn.put_message(answer_info(run, answer))
    await turn.put_part(text_part(answer, f"{run.id}_text"))
    return turn


async def flushed(turn: StoredTurn) -> None:
    if (job := turn.flush()) is not None:
        await job


async def late_turn(host: Host, run: Run) -> StoredTurn:
    return StoredTurn(host.store, run, host.defaults)


def written(known: Known) -> None:
    """Note that what was said before is stored with what followed it."""
    known.said, known.pending = known.said + known.pending, ""


TestPersistence = Persistence.TestCase
TestPersistence.settings = settings(max_examples=25, stateful_step_count=40)
