"""The doors without processes: the engine as each host drives it, over a simulated host and one clock."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Final

from fallback_plugin.events import Ending, Event, HostError
from fallback_plugin.fallback.effects import (
    PROBED,
    Abort,
    Claim,
    CloseModel,
    DeleteMessage,
    Done,
    Effect,
    EndProbe,
    Failed,
    FetchMessages,
    FetchSession,
    Outcome,
    Record,
    Reopen,
    Revert,
    StartTimer,
    StopTimer,
    TimerFired,
    Toast,
    Unrevert,
)
from fallback_plugin.fallback.effects import Prompt as PromptCall
from fallback_plugin.fallback.engine import Engine
from fallback_plugin.fallback.redirect import moved_sessions
from fallback_plugin.health import MemoryHealth
from fallback_plugin.health.scope import Key, keys_of
from fallback_plugin.hookspecs import ModelAttempt, PromptRequest
from fallback_plugin.host_client import HostKind
from fallback_plugin.model_ref import ModelRef
from fallback_plugin.settings import Settings as PluginSettings
from fallback_plugin.wire.event import read_event
from tests.doors.observation import Observation, shown_closure, without_clock
from tests.doors.sequences import (
    MODELS,
    Behaviour,
    Change,
    Clear,
    Expire,
    Prompt,
    Restart,
    Settings,
    Step,
    Stop,
    World,
)
from tests.fallback.simulated_host import SESSION, SimulatedHost
from tests.fallback.simulated_host import Behaviour as RunBehaviour
from tests.fallback.stage import ABORTED, api_error

RUNS: Final[Mapping[Behaviour, RunBehaviour]] = {
    "answers": "answer",
    "hangs": "stall",
    "limited": "rate_limit",
    "rejected": "refuse_key",
    "empty": "empty",
    "cut": "cut",
}
"""What a run of the simulated host does; its one refusal in time is a rate limit."""

ENDINGS: Final[Mapping[Behaviour, tuple[Ending, int | None]]] = {
    "limited": ("refused", 429),
    "rejected": ("refused", 401),
    "empty": ("empty", None),
    "cut": ("cut", None),
}
TOO_LONG: Final = 1000


class SimulatedDoor(ABC):
    """One engine with its health, and the session of a host of this kind."""

    name: ClassVar[str]
    kind: ClassVar[HostKind]

    def __init__(self) -> None:
        self.health = MemoryHealth()
        self.settings = _read(Settings())
        self.engine = Engine(self.settings, host_kind=self.kind)
        self.decisions: list[Mapping[str, Any]] = []
        self.words: list[str] = []
        self.asked: list[str] = []
        self.outcome = ""
        self.look()

    @property
    @abstractmethod
    def now(self) -> float:
        """The clock."""

    @abstractmethod
    def pass_time(self, seconds: float) -> None:
        """Put the clock forward."""

    @abstractmethod
    def ask(self, model: ModelRef, world: World) -> None:
        """Run a prompt to its end; a model that hangs is stopped."""

    def take_step(self, step: Step) -> Observation:
        """Carry a step out and return what it led to."""
        self.words, self.asked, self.outcome = [], [], ""
        self.pass_time(1.0)
        match step:
            case Prompt(model, world) | Stop(model, world):
                self.ask(_named(model), world)
            case Clear(model):
                cleared = MODELS if model is None else (model,)
                self.health.clear([key for each in cleared for key in keys_of(_named(each))])
            case Restart():
                self.engine = Engine(self.settings, host_kind=self.kind)
                self.engine.remember_moved(moved_sessions(self.decisions))
            case Change(settings):
                self.settings = self.engine.settings = _read(settings)
            case Expire():
                self.pass_time(3600.0)
        self.look()
        entries = self.health.view(self.now).entries()
        return Observation(
            outcome=self.outcome,
            asked=tuple(self.asked),
            closed=tuple(shown_closure(key, record, self.now) for key, record in entries),
            words=tuple(self.words),
        )

    def choose(self, model: ModelRef) -> ModelRef:
        """Ask the engine what a prompt is to run on."""
        self.look()
        request = PromptRequest(session_id=SESSION, agent="build", model=model)
        chosen, effects = self.engine.choose_model(request, self.now)
        self.take(effects)
        return chosen or model

    def take(self, effects: list[Effect]) -> None:
        """Carry out what needs no host; the rest is handed to `call`."""
        for effect in effects:
            match effect:
                case Claim():
                    outcome = self._claim(effect)
                    self.look()
                    self.take(self.engine.finished(effect, outcome, self.now))
                case CloseModel():
                    growth = {"base_s": effect.base_s, "grows_to_s": effect.grows_to_s}
                    self.health.close(
                        effect.model,
                        effect.scope,
                        effect.until,
                        reason=effect.reason,
                        now=self.now,
                        **growth,
                    )
                    self.look()
                case Reopen():
                    self.health.reopen(effect.model, asked_at=effect.asked_at)
                    self.look()
                case EndProbe():
                    self.health.end_probe(effect.model, SESSION)
                    self.look()
                case Toast():
                    body = effect.body
                    self.words.append(f"{body.variant}: {body.title}: {without_clock(body.message)}")
                case Record():
                    self._write_down(effect)
                case _:
                    self.call(effect)

    @abstractmethod
    def call(self, effect: Effect) -> None:
        """Take a call to the host, or a timer."""

    def look(self) -> None:
        """Let the engine see what is closed now."""
        self.engine.health.view = self.health.view(self.now)
        self.engine.health.begin_probe = self._probe

    def _claim(self, claim: Claim) -> Outcome:
        granted = claim.probe is None or self._probe(claim.probe, claim.session_id)
        return Done() if granted else Failed(PROBED)

    def _probe(self, key: Key, holder: str) -> bool:
        granted = self.health.begin_probe(key, holder, self.now, ttl_s=120)
        self.engine.health.view = self.health.view(self.now)
        return granted

    def _write_down(self, record: Record) -> None:
        why = record.why
        taken = {"failed": str(why.failed), "taken": str(why.taken)} if why and why.taken else {}
        self.decisions.append({"session": SESSION, "decision": record.decision, "why": taken})


class SimulatedInside(SimulatedDoor):
    """The engine in OpenCode: the host shows runs, a failed one is stopped and sent again."""

    name = "serve"
    kind: ClassVar[HostKind] = "serve"

    def __init__(self) -> None:
        self.host = SimulatedHost()
        self.calls: list[Effect] = []
        self.timers: dict[str, StartTimer] = {}
        super().__init__()

    @property
    def now(self) -> float:
        return self.host.clock

    def pass_time(self, seconds: float) -> None:
        self.host.clock += seconds

    def call(self, effect: Effect) -> None:
        match effect:
            case StartTimer():
                self.timers[effect.name] = effect
            case StopTimer():
                self.timers.pop(effect.name, None)
            case (
                PromptCall()
                | Abort()
                | FetchMessages()
                | FetchSession()
                | Revert()
                | Unrevert()
                | DeleteMessage()
            ):
                self.calls.append(effect)

    def ask(self, model: ModelRef, world: World) -> None:
        before = len(self.host.runs)
        chosen = self.choose(model)
        self.host.user_prompt(chosen, _behaviour(world, chosen))
        for _ in range(TOO_LONG):
            if not self._go_on(world):
                break
        else:
            raise AssertionError("the host comes to no end")
        self.asked = [run.model.model for run in self.host.runs[before:]]
        answered = not self.outcome and self.host.runs[-1].behaviour == "answer"
        self.outcome = self.outcome or (f"answered by {self.asked[-1]}" if answered else "no answer")

    def _go_on(self, world: World) -> bool:
        """Let the next thing happen: news first, then calls, then the run, then what needs time."""
        if self.host.deliveries[0]:
            news = self.host.deliveries[0].popleft()
            self.look()
            if isinstance(news, Event):
                self.take(self.engine.handle(news, self.now))
            else:
                self.take(self.engine.finished(*news, self.now))
            return True
        if self.calls:
            call = self.calls.pop(0)
            asked = _behaviour(world, call.body.model) if isinstance(call, PromptCall) else "answer"
            self.host.execute(call, asked)
            return True
        if settle := self.timers.pop("settle", None):
            self.pass_time(settle.after_s)
            self.look()
            self.take(self.engine.handle(TimerFired(SESSION, "settle", settle.attempt), self.now))
            return True
        run = self.host.run
        if run is None:
            return False
        if run.state == "starting" or run.behaviour == "answer":
            self.host.progress("answer")
        else:
            self.outcome = "stopped" if run.behaviour == "stall" else "no answer"
            self.host.abort()
        return True


class SimulatedAttached(SimulatedInside):
    """The engine beside OpenCode: nobody asks it which model a prompt runs on."""

    name = "attach"
    kind: ClassVar[HostKind] = "attach"

    def choose(self, model: ModelRef) -> ModelRef:
        return model


@dataclass
class _Ids:
    """Ids of messages that rise."""

    count: int = 0
    turn: str = field(default="")

    def new(self) -> str:
        self.count += 1
        return f"msg_{self.count:05}"


class SimulatedOwnHost(SimulatedDoor):
    """The engine in our own host, which asks about each failed request and goes on in the same run."""

    name = "agent"
    kind: ClassVar[HostKind] = "agent"

    def __init__(self) -> None:
        self._clock = 1_000_000.0
        self._ids = _Ids()
        super().__init__()

    @property
    def now(self) -> float:
        return self._clock

    def pass_time(self, seconds: float) -> None:
        self._clock += seconds

    def call(self, effect: Effect) -> None:
        """Do nothing: no call to this host is expected, and its timers never run out here."""
        assert not isinstance(effect, Abort | PromptCall), "our own host goes on by itself"

    def ask(self, model: ModelRef, world: World) -> None:
        model, turn, tried = self.choose(model), self._ids.new(), list[ModelRef]()
        self._tell("session.status", status={"type": "busy"})
        self._message(turn, role="user", model={"providerID": model.provider, "modelID": model.model})
        while True:
            tried.append(model)
            self.asked.append(model.model)
            step, behaviour = self._ids.new(), _in_world(world, model)
            self._step(step, turn, model)
            if behaviour in {"answers", "hangs", "cut"}:
                part = {"id": "prt_1", "sessionID": SESSION, "messageID": step, "type": "text", "text": "Hi"}
                self._tell("message.part.updated", part=part)
            if behaviour in {"answers", "hangs"}:
                break
            following = self._failed(turn, tried, behaviour)
            if following is None:
                break
            model = following
        if behaviour == "answers":
            self.outcome = f"answered by {model.model}"
            self._step(step, turn, model, finish="stop", time={"created": 1, "completed": 2})
        else:
            self.outcome = "stopped" if behaviour == "hangs" else "no answer"
            error = ABORTED if behaviour == "hangs" else api_error(429, "Rate limit reached. Overloaded")
            self._step(step, turn, model, error=error, time={"created": 1, "completed": 2})
            self._tell("session.error", error=error)
        self._tell("session.status", status={"type": "idle"})
        self._tell("session.idle")

    def _failed(self, turn: str, tried: list[ModelRef], behaviour: Behaviour) -> ModelRef | None:
        ending, status = ENDINGS[behaviour]
        message = "Rate limit reached" if status == 429 else ""
        request = ModelAttempt(
            session_id=SESSION,
            message_id=turn,
            agent="build",
            host_model=tried[-1],
            model=tried[-1],
            tried=tuple(tried),
            error=HostError(name="", status_code=status, message=message),
            ending=ending,
            reachable=frozenset(map(_named, MODELS)),
            is_fixed=False,
        )
        self.look()
        answer, effects = self.engine.attempt_failed(request, self.now)
        self.take(effects)
        assert answer is None or isinstance(answer, ModelRef)
        return answer

    def _step(self, step: str, turn: str, model: ModelRef, **info: Any) -> None:
        named = {"providerID": model.provider, "modelID": model.model}
        self._message(step, role="assistant", parentID=turn, **named, **info)

    def _message(self, message: str, **info: Any) -> None:
        common = {"id": message, "sessionID": SESSION, "agent": "build"}
        self._tell("message.updated", info={**common, "time": {"created": self.now * 1000}, **info})

    def _tell(self, kind: str, **properties: Any) -> None:
        self.pass_time(0.001)
        self.look()
        event = read_event({"type": kind, "properties": {"sessionID": SESSION, **properties}})
        self.take(self.engine.handle(event, self.now))


def simulated(step: Step) -> Step:
    """Return a step in which models refuse in time as the simulated host lets them: by a rate limit."""
    if not isinstance(step, Prompt | Stop):
        return step
    refusals = {"rested", "overloaded"}
    return replace(
        step, world={model: "limited" if did in refusals else did for model, did in step.world.items()}
    )


SIMULATED: Final = (SimulatedInside, SimulatedAttached, SimulatedOwnHost)


def _named(model: str) -> ModelRef:
    return ModelRef(f"of-{model}", model)


def _in_world(world: World, model: ModelRef) -> Behaviour:
    return next(behaviour for name, behaviour in world.items() if name == model.model)


def _behaviour(world: World, model: ModelRef) -> RunBehaviour:
    return RUNS[_in_world(world, model)]


def _read(settings: Settings) -> PluginSettings:
    return PluginSettings.model_validate(
        {
            "fallback": {
                "fallback_models": [str(_named(model)) for model in settings.chain],
                "cooldown": settings.cooldown_s,
                "first_token_timeout": 0,
                "stall_timeout": 0,
            }
        }
    )
