"""The invariants of the design, over random interleavings of the host's measured event orders."""

from typing import Final

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from fallback_plugin.events import Event, MessageUpdated, UserMessage
from fallback_plugin.fallback.effects import (
    Abort,
    Claim,
    CloseModel,
    DeleteMessage,
    Done,
    Effect,
    FetchMessages,
    FetchSession,
    Prompt,
    Revert,
    StartTimer,
    StopTimer,
    TimerFired,
    Toast,
)
from fallback_plugin.fallback.engine import Engine
from fallback_plugin.hookspecs import PromptRequest
from fallback_plugin.model_ref import ModelRef
from tests.fallback.simulated_host import SESSION, Behaviour, SimulatedHost
from tests.fallback.stage import PRIMARY
from tests.fallback.stage import settings as chain_settings

pytestmark = pytest.mark.timeout(1200)

C: Final = ModelRef("fake", "c")
MAX_ATTEMPTS: Final = 3

behaviours: Final[st.SearchStrategy[Behaviour]] = st.sampled_from(
    [
        "answer",
        "rate_limit",
        "refuse_key",
        "bad_request",
        "hang",
        "stall",
        "cut",
        "empty",
        "tool_then_limit",
        "tool_then_empty",
    ]
)


class FallbackMachine(RuleBasedStateMachine):
    """A person, a host and an engine; what happens next is hypothesis' choice."""

    def __init__(self) -> None:
        super().__init__()
        chain = ("fake/a", "fake/b", "fake/c")
        self.engine = Engine(
            chain_settings(
                chain=chain,
                max_attempts=MAX_ATTEMPTS,
                first_token_timeout="90s",
                stall_timeout="120s",
                cooldown="30s",
            )
        )
        self.host = SimulatedHost()
        self.calls: list[Effect] = []
        self.timers: dict[str, StartTimer] = {}
        self.stopped = False
        self.dispatched: list[Prompt] = []
        self.toasts: list[tuple[str, str]] = []
        self.content_of: set[ModelRef] = set()
        self.known_turn = ""
        self.lost = 0
        self.refused = 0
        self.in_this_turn = 0

    @property
    def now(self) -> float:
        return self.host.clock

    def take(self, effects: list[Effect]) -> None:
        for effect in effects:
            match effect:
                case Prompt():
                    self.check_prompt(effect)
                    self.calls.append(effect)
                case Abort() | FetchMessages() | FetchSession() | Revert() | DeleteMessage():
                    self.calls.append(effect)
                case Claim():
                    self.take(self.engine.finished(effect, Done(), self.now))
                case CloseModel():
                    self.engine.closed[effect.model] = effect.until
                case StartTimer():
                    self.timers[effect.name] = effect
                case StopTimer():
                    self.timers.pop(effect.name, None)
                case Toast():
                    self.check_toast(effect)

    def check_prompt(self, prompt: Prompt) -> None:
        """A prompt is wanted, in place, to a model that does not cool, and once a failed run."""
        session = self.engine.session(SESSION)
        assert session is not None
        assert session.state is not None
        assert not session.state.cooling(prompt.body.model, self.now)
        assert not self.told_of_stop
        if prompt.body.message_id is not None:
            assert prompt.body.parts == ()
            assert prompt.body.message_id == self.known_turn
        else:
            assert [part["text"] for part in prompt.body.parts] == ["Please"]
            assert self.known_turn not in self.host.tools_done, "a finished tool step would be lost"
        assert prompt.body.agent == "build"
        self.dispatched.append(prompt)
        failed = [run for run in self.host.runs if run.failed]
        assert len(self.dispatched) <= len(failed) + self.lost, "more prompts than failures"
        self.in_this_turn += 1
        assert self.in_this_turn <= MAX_ATTEMPTS * (1 + self.refused)

    def check_toast(self, toast: Toast) -> None:
        body = toast.body
        if body.message.startswith("Now on "):
            named = body.message.removeprefix("Now on ").removesuffix(".")
            assert named in {str(model) for model in self.content_of}
        entry = (self.host.turns[-1] if self.host.turns else "", body.title)
        if body.title == "All fallbacks exhausted":
            assert entry not in self.toasts
        self.toasts.append(entry)

    @property
    def told_of_stop(self) -> bool:
        """Whether a person stopped the run and the engine has had all news of it."""
        return self.stopped and not self.host.delivery

    @rule(model=st.sampled_from([PRIMARY, PRIMARY, None]), behaviour=behaviours)
    def person_prompts(self, model: ModelRef | None, behaviour: Behaviour) -> None:
        """Send a new message the way a terminal UI does: with its own model, or with none."""
        self.host.clock += 1
        session = self.engine.session(SESSION)
        current = session.state.current if session and session.state else PRIMARY
        request = PromptRequest(session_id=SESSION, agent="build", model=model)
        chosen, effects = self.engine.choose_model(request, self.now)
        self.stopped = False
        self.in_this_turn = self.refused = 0
        self.host.user_prompt(chosen or model or current, behaviour)
        self.take(effects)

    @precondition(lambda self: self.host.busy)
    @rule()
    def person_stops(self) -> None:
        self.host.abort()
        self.stopped = True

    @precondition(lambda self: self.host.busy)
    @rule(behaviour=behaviours)
    def host_progresses(self, behaviour: Behaviour) -> None:
        self.host.progress(behaviour)

    @precondition(lambda self: self.host.delivery)
    @rule(count=st.integers(1, 6))
    def news_arrives(self, count: int) -> None:
        for _ in range(min(count, len(self.host.delivery))):
            self.deliver()

    def deliver(self) -> None:
        news = self.host.delivery.popleft()
        if isinstance(news, Event):
            if isinstance(news, MessageUpdated) and isinstance(news.message, UserMessage):
                self.known_turn = max(self.known_turn, news.message.id)
            part = getattr(news, "part", None)
            if part is not None and part.type in {"text", "tool"}:
                self.content_of |= {run.model for run in self.host.runs}
            self.take(self.engine.handle(news, self.now))
        else:
            self.take(self.engine.finished(*news, self.now))

    @precondition(lambda self: self.calls)
    @rule(behaviour=behaviours)
    def host_executes(self, behaviour: Behaviour) -> None:
        call = self.calls.pop(0)
        self.host.execute(call, behaviour)

    @precondition(lambda self: self.calls)
    @rule(status=st.sampled_from([None, 400, 500]))
    def host_refuses(self, status: int | None) -> None:
        call = self.calls.pop(0)
        self.lost += isinstance(call, Prompt)
        self.refused += isinstance(call, Prompt)
        self.host.refuse(call, status)

    @precondition(lambda self: self.timers and not self.host.delivery)
    @rule(data=st.data())
    def timer_runs_out(self, data: st.DataObject) -> None:
        """Let a run stay silent for so long that it counts as failed."""
        timer = self.timers.pop(data.draw(st.sampled_from(sorted(self.timers))))
        self.host.clock += timer.after_s
        if self.host.run is not None and timer.name != "settle":
            self.host.run.failed = True
        self.take(self.engine.handle(TimerFired(timer.session_id, timer.name, timer.attempt), self.now))

    @rule(seconds=st.floats(0.1, 40))
    def time_passes(self, seconds: float) -> None:
        self.host.clock += seconds

    @rule(data=st.data())
    def everything_settles(self, data: st.DataObject) -> None:
        """Deliver and execute until nothing is open; then nothing may be in flight, or run after a stop."""
        while self.host.delivery or self.calls or "settle" in self.timers:
            while self.host.delivery:
                self.deliver()
            if self.calls:
                self.host.execute(self.calls.pop(0), data.draw(behaviours))
            elif settle := self.timers.pop("settle", None):
                self.host.clock += settle.after_s
                fired = TimerFired(settle.session_id, settle.name, settle.attempt)
                self.take(self.engine.handle(fired, self.now))
        assert SESSION not in self.engine.switching.in_flight
        if self.stopped:
            assert not self.host.busy

    @invariant()
    def one_switch_at_most_is_open(self) -> None:
        session = self.engine.session(SESSION)
        if session is not None:
            assert (session.switch is not None) == (SESSION in self.engine.switching.in_flight)


TestInvariants = FallbackMachine.TestCase
TestInvariants.settings = settings(
    stateful_step_count=40,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
