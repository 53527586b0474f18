"""A recorded stretch of a host's events, played through the engine: what would be done, and why.

Time is the recording's, with a second of silence at its end. Calls are answered at once and well; a prompt of
ours does not change what the recording goes on to show, so that the model it went to is not held to any time.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from fallback_plugin.events import (
    AssistantMessage,
    Event,
    Message,
    MessagePartUpdated,
    MessageRemoved,
    MessageUpdated,
    Part,
    SessionIdle,
    StoredMessage,
    UserMessage,
)
from fallback_plugin.fallback.context import SETTLE_S
from fallback_plugin.fallback.effects import (
    Abort,
    Claim,
    CloseModel,
    DeleteMessage,
    Done,
    Effect,
    Failed,
    Fetched,
    FetchMessages,
    FetchSession,
    GiveUp,
    Outcome,
    Prompt,
    Record,
    Reopen,
    Revert,
    StartTimer,
    StopTimer,
    TimerFired,
    Toast,
    Unrevert,
)
from fallback_plugin.fallback.engine import Engine
from fallback_plugin.fallback.session import same_model
from fallback_plugin.fallback.trace import LATEST_S, Moment
from fallback_plugin.health import MemoryHealth
from fallback_plugin.model_ref import ModelRef
from fallback_plugin.settings import Settings

PROBE_S: Final = 120.0
"""How long a session may take to find out whether a model works again."""

OUTCOMES: Final[Mapping[str, str]] = {
    "switch": "switched to {model}",
    "retry": "asked {model} once more",
    "user stopped": "stopped by the user",
    "exhausted": "exhausted",
    "gave up": "gave up",
}
"""What a session came to, by its last decision; where another one was the last, nothing was to be done."""

SENT: Final[Mapping[str, str]] = {
    "dispatched": "the recording does not show its answer",
    "switched": "it answered",
}
"""Decisions that carry another one out, and how far."""


@dataclass(frozen=True, slots=True)
class Step:
    """Something that would be done at ``at``, in the recording's seconds: in words, and why."""

    trace: str
    at: float
    session: str
    effect: str
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Ending:
    """What a session of a recording came to, and why; one without a name stands for all of them."""

    trace: str
    session: str
    outcome: str
    reason: str


def simulate(moments: Iterable[Moment], settings: Settings) -> Iterator[Step | Ending]:
    """Play a recording, each trace of it by itself, and yield what would be done and what it came to."""
    traces: dict[str, list[Moment]] = {}
    for moment in moments:
        traces.setdefault(moment.trace, []).append(moment)
    for trace, played in (traces or {"": []}).items():
        player = _Player(trace, Engine(settings), began_at(played))
        for moment in played:
            yield from player.play(moment)
        yield from player.end()


def began_at(moments: Sequence[Moment]) -> float:
    """Return when a recording began, in seconds since the epoch; 0 if its times are not of this world.

    No message is seen before it is made, so the one that was seen soonest tells best.
    """
    told = (
        moment.event.message.created_at - moment.at
        for moment in moments
        if isinstance(moment.event, MessageUpdated) and moment.event.message.created_at < LATEST_S
    )
    return max([0.0, *told])


@dataclass(slots=True)
class _Player:
    """One engine in front of one trace; ``beyond`` are sessions that a prompt of ours took out of it."""

    trace: str
    engine: Engine
    began: float
    at: float = 0.0
    health: MemoryHealth = field(default_factory=MemoryHealth)
    timers: dict[tuple[str, str], tuple[float, StartTimer]] = field(default_factory=dict)
    messages: dict[str, Message] = field(default_factory=dict)
    parts: dict[str, dict[str, Part]] = field(default_factory=dict)
    beyond: set[str] = field(default_factory=set)
    answers: dict[str, Record] = field(default_factory=dict)
    asked: dict[str, ModelRef] = field(default_factory=dict)
    decided: dict[str, Record] = field(default_factory=dict)

    @property
    def now(self) -> float:
        return self.began + self.at

    def play(self, moment: Moment) -> Iterator[Step]:
        """Let the timers run out that are due, then tell the event."""
        yield from self._wait_until(moment.at)
        self._remember(moment.event)
        if not self._ends_stopped_run(moment.event):
            yield from self._tell(moment.event)

    def end(self) -> Iterator[Step | Ending]:
        """Let a switch that has begun come to its end, and say what each session came to."""
        yield from self._wait_until(self.at + SETTLE_S)
        for session, decision in self.decided.items():
            yield self._ending(session, decision)
        if not self.decided:
            enabled = self.engine.settings.fallback.enabled
            reason = "nothing failed" if enabled else "fallback is switched off in the settings"
            yield Ending(self.trace, "", "nothing to do", reason)

    def _ends_stopped_run(self, event: Event) -> bool:
        """Tell whether an idle is of a run that the plugin would have stopped: it took another course."""
        if not isinstance(event, SessionIdle) or event.session_id not in self.beyond:
            return False
        asked = self.asked.get(event.session_id)
        return not any(
            isinstance(message, AssistantMessage)
            and message.session_id == event.session_id
            and asked is not None
            and same_model(message.model, asked)
            for message in self.messages.values()
        )

    def _wait_until(self, at: float) -> Iterator[Step]:
        while due := min((t for t in self.timers.values() if t[0] <= at), key=lambda t: t[0], default=None):
            moment, timer = due
            del self.timers[timer.session_id, timer.name]
            self.at = max(self.at, moment)
            yield from self._tell(TimerFired(timer.session_id, timer.name, timer.attempt))
        self.at = max(self.at, at)

    def _tell(self, event: Event | TimerFired) -> Iterator[Step]:
        self._look()
        yield from self._take(self.engine.handle(event, self.now))

    def _look(self) -> None:
        self.engine.health.view = self.health.view(self.now)

    def _take(self, effects: Sequence[Effect]) -> Iterator[Step]:
        for record in effects:
            if isinstance(record, Record):
                self.decided[record.session_id] = record
                if record.why:
                    self.answers[record.session_id] = record
        for effect in effects:
            if words := self._words(effect):
                reason = self._reason(effect, effects)
                yield Step(self.trace, round(self.at, 3), effect.session_id, words, reason)
        for effect in effects:
            outcome = self._outcome(effect)
            if outcome is not None:
                self._look()
                yield from self._take(self.engine.finished(effect, outcome, self.now))

    def _outcome(self, effect: Effect) -> Outcome | None:  # noqa: C901 -- a table of effects
        """Carry an effect out; None if the engine does not wait for what comes of it."""
        match effect:
            case Claim():
                return self._claimed(effect)
            case Prompt():
                self.beyond.add(effect.session_id)
                self.asked[effect.session_id] = effect.body.model
                return Done()
            case Abort() | Revert() | Unrevert() | DeleteMessage():
                return Done()
            case GiveUp():
                return Failed("a recording holds no requests", 404)
            case FetchSession():
                return Fetched()
            case FetchMessages():
                return Fetched(messages=self._history(effect.session_id))
            case StartTimer() if effect.name == "settle" or effect.session_id not in self.beyond:
                self.timers[effect.session_id, effect.name] = self.at + effect.after_s, effect
            case StopTimer():
                self.timers.pop((effect.session_id, effect.name), None)
            case CloseModel():
                self._close(effect)
            case Reopen():
                self.health.reopen(effect.model, asked_at=effect.asked_at)
        return None

    def _claimed(self, claim: Claim) -> Outcome:
        if claim.probe is not None:
            self.health.begin_probe(claim.probe, claim.session_id, self.now, ttl_s=PROBE_S)
        return Done()

    def _close(self, effect: CloseModel) -> None:
        self.health.close(
            effect.model,
            effect.scope,
            effect.until,
            reason=effect.reason,
            now=self.now,
            base_s=effect.base_s,
            grows_to_s=effect.grows_to_s,
        )

    def _remember(self, event: Event) -> None:
        """Keep what the host's history would hold."""
        match event:
            case MessageUpdated(message=message):
                if isinstance(message, UserMessage) and message.id not in self.messages:
                    self.beyond.discard(message.session_id)
                self.messages[message.id] = message
            case MessagePartUpdated(part=part):
                self.parts.setdefault(part.message_id, {})[part.id] = part
            case MessageRemoved():
                self.messages.pop(event.message_id, None)

    def _history(self, session_id: str) -> tuple[StoredMessage, ...]:
        return tuple(
            StoredMessage(info=message, parts=tuple(self.parts.get(message.id, {}).values()))
            for message in self.messages.values()
            if message.session_id == session_id
        )

    def _ending(self, session: str, last: Record) -> Ending:
        answer, model = self.answers.get(session), self.asked.get(session)
        if last.decision in SENT and answer is not None:
            outcome, reason = OUTCOMES[answer.decision], SENT[last.decision]
        elif last.decision in OUTCOMES:
            outcome, reason = OUTCOMES[last.decision], last.reason
        else:
            outcome, reason = "nothing to do", f"{last.decision}: {last.reason}"
        return Ending(self.trace, session, outcome.format(model=model), reason)

    def _reason(self, effect: Effect, beside: Sequence[Effect]) -> str:
        """Say why something is done: for a decision beside it, or for the failure it answers."""
        match effect:
            case Record() | CloseModel():
                return effect.reason
            case Toast() | Reopen():
                return ""
        decision = next((each for each in beside if isinstance(each, Record) and not each.why), None)
        if decision is not None:
            return decision.reason
        answer = self.answers.get(effect.session_id)
        return f"{answer.why.failed}: {answer.why.failure.kind}" if answer and answer.why else ""

    def _words(self, effect: Effect) -> str:  # noqa: C901 -- a table of effects
        """Put an effect into words; what only prepares another one is left out."""
        match effect:
            case GiveUp():
                words = f"leave the request ({effect.evidence})"
            case Abort():
                words = "stop the run"
            case Prompt():
                again = "the turn in place" if effect.body.message_id else "the message anew"
                words = f"run {again} on {effect.body.model}"
            case Unrevert():
                words = "show again what was taken back"
            case Revert():
                words = f"take back {effect.message_id}"
            case DeleteMessage():
                words = f"delete {effect.message_id}"
            case CloseModel():
                words = f"close {effect.model} ({effect.scope}) for {round(effect.until - self.now)} s"
            case Reopen():
                words = f"reopen {effect.model}"
            case Toast():
                lines = effect.body.message.replace("\n", " / ")
                words = f"show “{effect.body.title}: {lines}”"
            case Record():
                words = f"decide: {effect.decision}"
            case _:
                words = ""
        return words
