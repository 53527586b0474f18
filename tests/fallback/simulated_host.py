"""A host that behaves as OpenCode 1.18.33 was measured to, one small step at a time.

Events wait in a queue until they are delivered, and calls until the host executes them, so that a test
chooses how the two interleave. An abort ends a retry wait with the completed message and an idle; a running
answer with an error, an idle, the aborted message and an idle; in an idle session it makes an idle. All that
comes before the abort's own answer.
"""

from collections import deque
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from fallback_plugin.events import Event
from fallback_plugin.fallback.effects import Abort, Done, Effect, Failed, Fetched, Outcome, Prompt
from fallback_plugin.host_client import Receipt
from fallback_plugin.model_ref import ModelRef
from fallback_plugin.wire.event import read_event
from tests.fallback.stage import ABORTED, api_error

Behaviour: TypeAlias = Literal["answer", "rate_limit", "refuse_key", "bad_request", "hang", "tool_then_limit"]

SESSION = "ses_1"
NATIVE_RETRIES = 2


@dataclass
class Run:
    """One model's run of a turn, and what its provider still has in store."""

    number: int
    turn: str
    model: ModelRef
    behaviour: Behaviour
    step: str
    state: Literal["starting", "streaming", "waiting", "over"] = "starting"
    attempt: int = 0
    failed: bool = False


@dataclass
class SimulatedHost:
    """One session. ``delivery`` holds events and answers in the order the host made them."""

    delivery: deque[Event | tuple[Effect, Outcome]] = field(default_factory=deque)
    run: Run | None = None
    runs: list[Run] = field(default_factory=list)
    turns: list[str] = field(default_factory=list)
    queued: tuple[str, ModelRef] | None = None
    sequence: int = 0
    messages: int = 0
    clock: float = 1_000_000.0

    def emit(self, kind: str, **properties: Any) -> None:
        self.sequence += 1
        raw = {"type": kind, "properties": {"sessionID": SESSION, **properties}}
        self.delivery.append(read_event(raw, sequence=self.sequence))

    def message(self, **info: Any) -> None:
        created = {"created": self.clock * 1000, **info.pop("time", {})}
        self.emit("message.updated", info={"sessionID": SESSION, "agent": "build", "time": created, **info})

    def new_id(self) -> str:
        self.messages += 1
        return f"msg_{self.messages:05}"

    def idle(self) -> None:
        self.emit("session.status", status={"type": "idle"})
        self.emit("session.idle")

    @property
    def busy(self) -> bool:
        return self.run is not None

    def user_prompt(self, model: ModelRef, behaviour: Behaviour) -> None:
        """Take a person's new message; while a run is busy it only waits."""
        turn = self.new_id()
        self.turns.append(turn)
        self._user(turn, model)
        if self.busy:
            self.queued = (turn, model)
        else:
            self._start(turn, model, behaviour)

    def progress(self, behaviour: Behaviour) -> None:
        """Let the run do its next thing; ``behaviour`` is what a run that begins now will do."""
        run = self.run
        if run is None:
            return
        if run.state == "starting":
            self._begin(run)
        elif run.state == "waiting":
            self._retry(run)
        elif run.behaviour == "answer":
            self._succeed(run, behaviour)

    def execute(self, call: Effect, behaviour: Behaviour) -> None:
        """Carry a call out and queue its answer behind the events it caused."""
        outcome: Outcome = Done()
        if isinstance(call, Abort):
            sent_after = self.sequence
            self.abort()
            outcome = Done(Receipt(sent_after, self.sequence))
        elif isinstance(call, Prompt):
            turn = call.body.message_id or self.new_id()
            self._user(turn, call.body.model)
            if not self.busy:
                self._start(turn, call.body.model, behaviour)
        else:
            outcome = Fetched()
        self.delivery.append((call, outcome))

    def refuse(self, call: Effect, status: int | None) -> None:
        """Do nothing and say so; without a status, say nothing in time."""
        self.delivery.append((call, Failed("refused", status)))

    def abort(self) -> None:
        """Stop the run, whoever asked."""
        run, self.run, self.queued = self.run, None, None
        if run is None:
            self.idle()
        elif run.state == "waiting":
            self._step(run, time={"completed": self.clock * 1000})
            self.idle()
        else:
            self.emit("session.error", error=ABORTED)
            self.idle()
            self._step(run, error=ABORTED, time={"completed": self.clock * 1000})
            self.idle()

    def _user(self, turn: str, model: ModelRef) -> None:
        self.clock += 0.001
        named = {"providerID": model.provider, "modelID": model.model}
        self.message(id=turn, role="user", model=named)

    def _start(self, turn: str, model: ModelRef, behaviour: Behaviour) -> None:
        self.run = Run(len(self.runs), turn, model, behaviour, self.new_id())
        self.runs.append(self.run)
        self.emit("session.status", status={"type": "busy"})
        self._step(self.run)

    def _step(self, run: Run, **info: Any) -> None:
        self.message(
            id=run.step,
            role="assistant",
            parentID=run.turn,
            providerID=run.model.provider,
            modelID=run.model.model,
            **info,
        )

    def _part(self, run: Run, kind: str) -> None:
        part = {"id": "prt_1", "sessionID": SESSION, "messageID": run.step, "type": kind, "text": "Hi"}
        self.emit("message.part.updated", part=part)

    def _begin(self, run: Run) -> None:
        match run.behaviour:
            case "answer":
                run.state = "streaming"
                self._part(run, "text")
            case "rate_limit":
                self._wait(run)
            case "refuse_key":
                self._fail(run, api_error(401))
            case "bad_request":
                self._fail(run, api_error(400))
            case "hang":
                run.state = "streaming"
                run.failed = True
            case "tool_then_limit":
                self._part(run, "tool")
                self._step(run, finish="tool-calls", time={"completed": self.clock * 1000})
                run.step = self.new_id()
                self._step(run)
                self._wait(run)

    def _wait(self, run: Run) -> None:
        run.failed = True
        run.state = "waiting"
        run.attempt += 1
        status = {"type": "retry", "attempt": run.attempt, "message": "Rate limit reached"}
        self.emit("session.status", status={**status, "next": (self.clock + 2) * 1000})

    def _retry(self, run: Run) -> None:
        self.emit("session.status", status={"type": "busy"})
        if run.attempt < NATIVE_RETRIES:
            self._wait(run)
        else:
            self._fail(run, api_error(429))

    def _fail(self, run: Run, error: dict[str, Any]) -> None:
        run.failed = True
        self.run = None
        self.emit("session.error", error=error)
        self.idle()
        self._step(run, error=error, time={"completed": self.clock * 1000})
        self.idle()

    def _succeed(self, run: Run, behaviour: Behaviour) -> None:
        self._step(run, finish="stop", time={"completed": self.clock * 1000})
        self.run = None
        queued, self.queued = self.queued, None
        if queued is None:
            self.idle()
        else:
            self._start(*queued, behaviour)
