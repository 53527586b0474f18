"""A host that behaves as OpenCode 1.18.33 was measured to, one small step at a time.

Events wait in a queue until they are delivered, and calls until the host executes them, so that a test
chooses how the two interleave. An abort ends a retry wait with the completed message and an idle; a running
answer with an error, an idle, the aborted message and an idle; in an idle session it makes an idle. All that
comes before the abort's own answer. A stop that reaches a run which ends anyway makes nothing; only the
bridge sees that it was asked for.

What no host promises can be chosen: ids that do not rise, and a run's start said before its message is shown.
"""

from collections import deque
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from fallback_plugin.events import Event, StoredMessage
from fallback_plugin.fallback.effects import (
    Abort,
    DeleteMessage,
    Done,
    Effect,
    Failed,
    Fetched,
    FetchMessages,
    Outcome,
    Prompt,
    Revert,
    Unrevert,
)
from fallback_plugin.host_client import STOPPED, Receipt
from fallback_plugin.model_ref import ModelRef
from fallback_plugin.wire.event import read_event
from fallback_plugin.wire.message import read_history
from fallback_plugin.wire.prompt import Prompt as PromptBody
from tests.fallback.stage import ABORTED, api_error

Behaviour: TypeAlias = Literal[
    "answer",
    "rate_limit",
    "refuse_key",
    "bad_request",
    "say_nothing_of_use",
    "hang",
    "stall",
    "cut",
    "empty",
    "tool_then_limit",
    "tool_then_empty",
]

SESSION = "ses_1"
NATIVE_RETRIES = 2


@dataclass
class Run:
    """One model's run of a turn, and what its provider still has in store.

    ``caller`` is the copy of the plugin whose prompt it answers, None for the user's.
    """

    number: int
    turn: str
    model: ModelRef
    behaviour: Behaviour
    step: str
    caller: int | None = None
    state: Literal["starting", "streaming", "waiting", "over"] = "starting"
    attempt: int = 0
    failed: bool = False


@dataclass
class SimulatedHost:
    """One session. Each copy of the plugin has its queue of events and answers, in their order."""

    copies: int = 1
    deliveries: list[deque[Event | tuple[Effect, Outcome]]] = field(init=False)
    run: Run | None = None
    runs: list[Run] = field(default_factory=list)
    turns: list[str] = field(default_factory=list)
    order: list[str] = field(default_factory=list)
    created: dict[str, float] = field(default_factory=dict)
    queued: tuple[str, ModelRef] | None = None
    stopped_well: set[str] = field(default_factory=set)
    tools_done: set[str] = field(default_factory=set)
    sent_anew: dict[str, str] = field(default_factory=dict)
    sequence: int = 0
    messages: int = 0
    ids_rise: bool = True
    busy_first: bool = False
    tells_requests: bool = False
    stop_asked_at: int = 0
    late_idles: int = 0
    hidden: bool = False
    clock: float = 1_000_000.0

    def __post_init__(self) -> None:
        self.deliveries = [deque() for _ in range(self.copies)]

    def emit(self, kind: str, **properties: Any) -> None:
        self.sequence += 1
        raw = {"type": kind, "properties": {"sessionID": SESSION, **properties}}
        for delivery in self.deliveries:
            delivery.append(read_event(raw, sequence=self.sequence))

    def message(self, **info: Any) -> None:
        created = {"created": self.clock * 1000, **info.pop("time", {})}
        self.emit("message.updated", info={"sessionID": SESSION, "agent": "build", "time": created, **info})

    def new_id(self) -> str:
        self.messages += 1
        place = self.messages if self.ids_rise else self.messages * 7919 % 10_007
        return f"msg_{place:05}"

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
        self._shown(turn, model)
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
            self._begin(run, behaviour)
        elif run.state == "waiting":
            self._retry(run)
        elif run.behaviour == "answer":
            self._succeed(run, behaviour)

    def execute(self, call: Effect, behaviour: Behaviour, caller: int = 0) -> None:
        """Carry a call out and queue its answer behind the events it caused."""
        outcome: Outcome = Done()
        if isinstance(call, Abort | Prompt) and call.after is not None and call.after < self.stop_asked_at:
            outcome = Failed("the user has stopped it", STOPPED)
        elif isinstance(call, Abort):
            sent_after = self.sequence
            self.abort()
            outcome = Done(Receipt(sent_after, self.sequence))
        elif isinstance(call, Prompt):
            self._prompt(call.body, behaviour, caller)
        elif isinstance(call, Revert):
            outcome = Failed("busy", 409) if self.busy else Done()
            self.hidden = self.hidden or not self.busy
        elif isinstance(call, Unrevert):
            self.hidden = False
        elif isinstance(call, DeleteMessage):
            outcome = Failed("busy", 409) if self.busy else Done()
            self.stopped_well.clear()
        elif isinstance(call, FetchMessages):
            outcome = Fetched(messages=self._history())
        else:
            outcome = Fetched()
        self.deliveries[caller].append((call, outcome))

    def _prompt(self, body: PromptBody, behaviour: Behaviour, caller: int) -> None:
        """Run a turn again in place, unless it ended well; or begin a new message."""
        turn = body.message_id or self.new_id()
        if body.message_id is None:
            self.sent_anew[turn] = self.turns[-1]
        self._shown(turn, body.model)
        if not self.busy and turn not in self.stopped_well:
            self._start(turn, body.model, behaviour)
            assert self.run is not None
            self.run.caller = caller

    def _history(self) -> tuple[StoredMessage, ...]:
        """Return every turn as the host stores it: its message and each run's last step."""
        history: list[dict[str, Any]] = []
        for turn in sorted([*self.turns, *self.sent_anew], key=self.order.index):
            runs = [run for run in self.runs if run.turn == turn]
            common = {"sessionID": SESSION, "agent": "build", "time": {"created": 1}}
            text = {"id": "prt_0", "sessionID": SESSION, "messageID": turn, "type": "text", "text": "Please"}
            model = _named(runs[-1].model) if runs else {"providerID": "fake", "modelID": "primary"}
            history.append({"info": {**common, "id": turn, "role": "user", "model": model}, "parts": [text]})
            for run in runs:
                info = {**common, "id": run.step, "role": "assistant", "parentID": turn, **_named(run.model)}
                history.append({"info": info, "parts": []})
            if turn in self.tools_done:
                done = {"id": "prt_1", "messageID": runs[-1].step, "type": "tool"}
                history[-1]["parts"] = [{**text, **done, "state": {"status": "completed"}}]
        return tuple(read_history(history))

    def refuse(self, call: Effect, status: int | None, caller: int = 0) -> None:
        """Do nothing and say so; without a status, say nothing in time."""
        self.deliveries[caller].append((call, Failed("refused", status)))

    def asked_to_stop(self) -> None:
        """Show that somebody asks for a stop, as the bridge does; the host itself need say nothing of it."""
        self.emit("session.abort.requested")
        self.stop_asked_at = self.sequence

    def abort_of_user(self) -> None:
        """Take a stop that comes while no run is there to be stopped: its idle comes late, before any run."""
        self.late_idles += 1

    def catch_up(self) -> None:
        """Show what is late by now."""
        for _ in range(self.late_idles):
            self.idle()
        self.late_idles = 0

    def abort(self) -> None:
        """Stop the run, whoever asked."""
        run, self.run, self.queued = self.run, None, None
        if run is None:
            self.idle()
        elif run.state == "waiting":
            self._step(run, time={"completed": self.clock * 1000})
            self.idle()
        else:
            if run.behaviour != "cut":  # between two steps of a loop the abort is no error of the session
                self.emit("session.error", error=ABORTED)
                self.idle()
            self._step(run, error=ABORTED, time={"completed": self.clock * 1000})
            self.idle()

    def _user(self, turn: str, model: ModelRef) -> None:
        """Publish a message; only a prompt renews the time at which it counts as created."""
        self.message(id=turn, role="user", model=_named(model), time={"created": self.created[turn] * 1000})

    def _shown(self, turn: str, model: ModelRef) -> None:
        """Show the message of a prompt; hosts differ in whether they say first that they work."""
        self.hidden = False
        if turn not in self.order:
            self.order.append(turn)
        self.clock += 0.001
        self.created[turn] = self.clock
        begins = not self.busy and turn not in self.stopped_well
        if self.busy_first and begins:
            self.emit("session.status", status={"type": "busy"})
        self._user(turn, model)

    def _start(self, turn: str, model: ModelRef, behaviour: Behaviour) -> None:
        self.catch_up()
        self.run = Run(len(self.runs), turn, model, behaviour, self.new_id())
        self.runs.append(self.run)
        if not self.busy_first:
            self.emit("session.status", status={"type": "busy"})
        self._step(self.run)

    def _step(self, run: Run, **info: Any) -> None:
        self.message(
            id=run.step,
            role="assistant",
            parentID=run.turn,
            **_named(run.model),
            **info,
        )

    def _part(self, run: Run, kind: str, **more: Any) -> None:
        part = {
            "id": "prt_1",
            "sessionID": SESSION,
            "messageID": run.step,
            "type": kind,
            "text": "Hi",
            **more,
        }
        self.emit("message.part.updated", part=part)

    def _requested(self, run: Run) -> None:
        if self.tells_requests:
            self.emit("model.requested", messageID=run.turn)

    def _begin(self, run: Run, behaviour: Behaviour) -> None:  # noqa: C901 -- a table of what providers do
        self._requested(run)
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
            case "say_nothing_of_use":
                self._fail(run, {"name": "UnknownError", "data": {"message": "Unexpected server error"}})
            case "hang":
                run.state = "streaming"
                run.failed = True
            case "stall":
                run.state = "streaming"
                run.failed = True
                self._part(run, "text")
            case "cut":
                run.failed = True
                self._part(run, "text")
                self._next_step(run, "unknown")
            case "empty":
                self._end_empty(run, behaviour)
            case "tool_then_limit":
                self._tool_step(run)
                self._wait(run)
            case "tool_then_empty":
                self._tool_step(run)
                self._end_empty(run, behaviour)

    def _tool_step(self, run: Run) -> None:
        self._part(run, "tool", state={"status": "running"})
        self._part(run, "tool", state={"status": "completed"})
        self.tools_done.add(run.turn)
        self._next_step(run, "tool-calls")
        self._requested(run)

    def _next_step(self, run: Run, finish: str) -> None:
        self._step(run, finish=finish, time={"completed": self.clock * 1000})
        run.step = self.new_id()
        self._step(run)

    def _end_empty(self, run: Run, behaviour: Behaviour) -> None:
        """End a turn as if all were well, with nothing said; its message is published once more."""
        run.failed = True
        self._part(run, "step-finish")
        self._step(run, finish="stop", time={"completed": self.clock * 1000})
        self.stopped_well.add(run.turn)
        self._end(behaviour)
        self._user(run.turn, run.model)

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
        self.stopped_well.add(run.turn)
        self._end(behaviour)

    def _end(self, behaviour: Behaviour) -> None:
        """End a run well; a message that waited begins its own."""
        self.run = None
        queued, self.queued = self.queued, None
        if queued is None:
            self.idle()
        else:
            self._start(*queued, behaviour)


def _named(model: ModelRef) -> dict[str, str]:
    return {"providerID": model.provider, "modelID": model.model}
