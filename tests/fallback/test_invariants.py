"""The invariants of the design, over random interleavings of the host's measured event orders."""

from dataclasses import dataclass, field
from typing import Final, get_args

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from fallback_plugin.events import Event, MessageUpdated, UserMessage
from fallback_plugin.fallback.context import LONGEST_UNASKED_S
from fallback_plugin.fallback.effects import (
    PROBED,
    Abort,
    Claim,
    CloseModel,
    DeleteMessage,
    Done,
    Effect,
    Failed,
    FetchMessages,
    FetchSession,
    Outcome,
    Prompt,
    Reopen,
    Revert,
    StartTimer,
    StopTimer,
    TimerFired,
    Toast,
    Unrevert,
)
from fallback_plugin.fallback.engine import Engine
from fallback_plugin.health import MemoryHealth
from fallback_plugin.health.scope import Key
from fallback_plugin.hookspecs import PromptRequest
from fallback_plugin.host_client import HostKind
from fallback_plugin.model_ref import ModelRef
from fallback_plugin.settings import Settings
from tests.fallback.simulated_host import SESSION, Behaviour, Run, SimulatedHost
from tests.fallback.stage import PRIMARY
from tests.fallback.stage import settings as chain_settings

pytestmark = pytest.mark.timeout(7200)

MAX_ATTEMPTS: Final = 3

behaviours: Final[st.SearchStrategy[Behaviour]] = st.sampled_from(get_args(Behaviour))


@dataclass
class Copy:
    """One copy of the plugin: its engine, and what it is waiting for."""

    number: int
    engine: Engine
    calls: list[Effect] = field(default_factory=list)
    timers: dict[str, StartTimer] = field(default_factory=dict)
    known_turn: str = ""


class FallbackMachine(RuleBasedStateMachine):
    """A person, a host and the copies of the plugin in it; what happens next is hypothesis' choice."""

    copies = 1
    host_kind: HostKind = "serve"
    max_attempts = MAX_ATTEMPTS
    tells_requests = False

    def __init__(self) -> None:
        super().__init__()
        made = chain_settings(
            chain=("spare/a", "third/b", "fake/c"),
            max_attempts=self.max_attempts,
            first_token_timeout="90s",
            stall_timeout="120s",
            cooldown="30s",
        )
        self.plugins = [Copy(number, self.new_engine(made)) for number in range(self.copies)]
        self.health = MemoryHealth()
        self.host = SimulatedHost(self.copies, tells_requests=self.tells_requests)
        self.stopped = False
        self.dispatched: list[Prompt] = []
        self.said: list[tuple[str, str]] = []
        self.content_of: set[ModelRef] = set()
        self.lost = 0
        self.refused = 0
        self.in_this_turn = 0
        self.stopped_between = self.copy_died = False
        self.restarted: set[int] = set()

    def new_engine(self, made: Settings) -> Engine:
        engine = Engine(made, host_kind=self.host_kind)
        engine.tells_requests = self.tells_requests
        return engine

    @initialize(ids_rise=st.booleans(), busy_first=st.booleans())
    def host_speaks(self, *, ids_rise: bool, busy_first: bool) -> None:
        self.host.ids_rise, self.host.busy_first = ids_rise, busy_first

    @property
    def now(self) -> float:
        return self.host.clock

    @property
    def calling(self) -> list[Copy]:
        return [copy for copy in self.plugins if copy.calls]

    @property
    def behind(self) -> list[Copy]:
        return [copy for copy in self.plugins if self.host.deliveries[copy.number]]

    @property
    def timing(self) -> list[Copy]:
        return [copy for copy in self.plugins if copy.timers and not self.host.deliveries[copy.number]]

    def take(self, copy: Copy, effects: list[Effect]) -> None:  # noqa: C901 -- a table of effects
        for effect in effects:
            match effect:
                case Prompt():
                    self.check_prompt(copy, effect)
                    copy.calls.append(effect)
                case Abort() | FetchMessages() | FetchSession() | Revert() | Unrevert() | DeleteMessage():
                    assert self.host_kind == "tui" or not isinstance(effect, Revert)
                    copy.calls.append(effect)
                case Claim():
                    outcome = self.claim_failure(copy, effect)
                    self.look()
                    self.take(copy, copy.engine.finished(effect, outcome, self.now))
                case CloseModel():
                    self.health.close(
                        effect.model,
                        effect.scope,
                        effect.until,
                        reason=effect.reason,
                        now=self.now,
                        base_s=effect.base_s,
                    )
                case Reopen():
                    self.health.reopen(effect.model, asked_at=effect.asked_at)
                case StartTimer():
                    copy.timers[effect.name] = effect
                case StopTimer():
                    copy.timers.pop(effect.name, None)
                case Toast(once=str() as key) if not self.claim(copy, key):
                    pass
                case Toast():
                    self.check_toast(effect)

    def claim_failure(self, copy: Copy, claim: Claim) -> Outcome:
        if not self.claim(copy, claim.key):
            return Failed("another has it")
        return Done() if claim.probe is None or self.probe(claim.probe, claim.session_id) else Failed(PROBED)

    def probe(self, key: Key, session_id: str) -> bool:
        return self.health.begin_probe(key, session_id, self.now, ttl_s=120)

    def look(self) -> None:
        for copy in self.plugins:
            copy.engine.health.view = self.health.view(self.now)
            copy.engine.health.begin_probe = self.probe

    def claim(self, copy: Copy, key: str) -> bool:
        return self.health.claim(key, str(copy.number), self.now, ttl_s=10_000)

    def check_prompt(self, copy: Copy, prompt: Prompt) -> None:
        """A prompt is wanted, loses nothing, goes to a model that does not cool, once a failed run."""
        session = copy.engine.session(SESSION)
        assert session is not None
        assert session.state is not None
        self.look()
        assert not session.state.cooling(prompt.body.model, self.now)
        assert not (self.stopped and self.has_seen_all(copy)), "the person had stopped it"
        if prompt.body.message_id is not None:
            assert prompt.body.parts == ()
            assert prompt.body.message_id in {*self.host.turns, *self.host.sent_anew}
            order = self.host.order
            assert not copy.known_turn or order.index(prompt.body.message_id) >= order.index(copy.known_turn)
        else:
            assert [part["text"] for part in prompt.body.parts] == ["Please"]
            assert copy.known_turn not in self.host.tools_done, "a finished tool step would be lost"
        assert prompt.body.agent == "build"
        self.dispatched.append(prompt)
        failed = [run for run in self.host.runs if run.failed]
        assert len(self.dispatched) <= len(failed) + self.lost, "more prompts than failures"
        self.in_this_turn += 1
        assert self.in_this_turn <= self.max_attempts * (1 + self.refused) * self.copies

    def check_toast(self, toast: Toast) -> None:
        body = toast.body
        if body.message.startswith("Now on "):
            named = body.message.removeprefix("Now on ").partition(". ")[0].removesuffix(".")
            assert named in {str(model) for model in self.content_of}
        if body.title == "All fallbacks exhausted":
            assert toast.once is not None
            assert (toast.once, body.title) not in self.said
            self.said.append((toast.once, body.title))

    @rule(model=st.sampled_from([PRIMARY, PRIMARY, None]), behaviour=behaviours)
    def person_prompts(self, model: ModelRef | None, behaviour: Behaviour) -> None:
        """Send a new message the way a terminal UI does: with its own model, or with none."""
        self.host.clock += 1
        session = self.plugins[0].engine.session(SESSION)
        runs_on = session.state.current if session and session.state else PRIMARY
        request = PromptRequest(session_id=SESSION, agent="build", model=model)
        self.stopped = self.stopped_between = False
        self.restarted.clear()
        self.in_this_turn = self.refused = 0
        for copy in self.plugins:
            self.look()
            chosen, effects = copy.engine.choose_model(request, self.now)
            if chosen is not None:
                runs_on = chosen
            elif copy.number == 0:
                runs_on = model or runs_on
            self.take(copy, effects)
        self.host.user_prompt(runs_on, behaviour)

    @precondition(lambda self: self.host.busy)
    @rule(request_shows=st.booleans())
    def person_stops(self, *, request_shows: bool) -> None:
        if request_shows:
            self.host.asked_to_stop()
        self.host.abort()
        self.stopped = True

    @precondition(lambda self: not self.host.busy and not self.stopped and self.switching)
    @rule(request_shows=st.booleans())
    def person_stops_between_two_runs(self, *, request_shows: bool) -> None:
        """Stop the turn when its failed run is over or ending, and the next one has not begun."""
        if request_shows:
            self.host.asked_to_stop()
        else:
            self.host.abort_of_user()
        self.stopped = self.stopped_between = True

    def has_seen_all(self, copy: Copy) -> bool:
        """Tell whether a copy knows all that has happened in the host."""
        return not (self.host.deliveries[copy.number] or self.host.late_idles)

    @property
    def forgot_a_stop(self) -> bool:
        """Whether a copy died between two runs, when the stop came: nobody could know of it."""
        return self.stopped_between and bool(self.restarted)

    @property
    def switching(self) -> bool:
        """Whether any copy is in the midst of a switch."""
        return any(SESSION in copy.engine.switching.in_flight for copy in self.plugins)

    @rule()
    def late_idles_come(self) -> None:
        self.host.catch_up()

    @precondition(lambda self: self.host.busy)
    @rule(behaviour=behaviours)
    def host_progresses(self, behaviour: Behaviour) -> None:
        if self.host.run is not None and self.host.run.state == "starting" and not self.may_begin():
            self.host.abort()
        else:
            self.host.progress(behaviour)

    def may_begin(self) -> bool:
        """Ask the copy whose prompt is about to reach its model whether it may; nothing is late then."""
        run = self.host.run
        assert run is not None
        if run.caller is None:
            return True
        copy = self.plugins[run.caller]
        self.host.catch_up()
        while self.host.deliveries[copy.number]:
            self.deliver(copy)
        if self.host.run is not run:
            return True
        stopped = copy.engine.is_stopped(SESSION, run.turn)
        assert stopped or not self.stopped or self.forgot_a_stop, "the person had stopped it"
        return not stopped

    @precondition(lambda self: self.behind)
    @rule(data=st.data(), count=st.integers(1, 6))
    def news_arrives(self, data: st.DataObject, count: int) -> None:
        copy = data.draw(st.sampled_from(self.behind))
        for _ in range(min(count, len(self.host.deliveries[copy.number]))):
            self.deliver(copy)

    def deliver(self, copy: Copy) -> None:
        self.look()
        news = self.host.deliveries[copy.number].popleft()
        if isinstance(news, Event):
            if isinstance(news, MessageUpdated) and isinstance(news.message, UserMessage):
                copy.known_turn = max(copy.known_turn, news.message.id, key=["", *self.host.order].index)
            part = getattr(news, "part", None)
            if part is not None and part.type in {"text", "tool"}:
                self.content_of |= {run.model for run in self.host.runs}
            self.take(copy, copy.engine.handle(news, self.now))
        else:
            self.take(copy, copy.engine.finished(*news, self.now))

    @precondition(lambda self: self.calling)
    @rule(data=st.data(), behaviour=behaviours)
    def host_executes(self, data: st.DataObject, behaviour: Behaviour) -> None:
        copy = data.draw(st.sampled_from(self.calling))
        self.host.execute(copy.calls.pop(0), behaviour, copy.number)

    @precondition(lambda self: self.calling)
    @rule(data=st.data(), status=st.sampled_from([None, 400, 500]))
    def host_refuses(self, data: st.DataObject, status: int | None) -> None:
        copy = data.draw(st.sampled_from(self.calling))
        call = copy.calls.pop(0)
        self.lost += isinstance(call, Prompt)
        self.refused += isinstance(call, Prompt)
        self.host.refuse(call, status, copy.number)

    @precondition(lambda self: self.timing)
    @rule(data=st.data())
    def timer_runs_out(self, data: st.DataObject) -> None:
        """Let a run stay silent for so long that it counts as failed."""
        copy = data.draw(st.sampled_from(self.timing))
        timer = copy.timers.pop(data.draw(st.sampled_from(sorted(copy.timers))))
        self.host.clock += timer.after_s
        self.fire(copy, timer)

    def fire(self, copy: Copy, timer: StartTimer) -> None:
        self.look()
        fired = TimerFired(timer.session_id, timer.name, timer.attempt)
        effects = copy.engine.handle(fired, self.now)
        run = self.host.run
        judged = not all(isinstance(effect, StartTimer) for effect in effects)
        if run is not None and judged and timer.name not in {"settle", "reopen"}:
            self.check_silence(copy, run, timer)
            run.failed = True
        self.take(copy, effects)

    def check_silence(self, copy: Copy, run: Run, timer: StartTimer) -> None:
        """Nobody takes a host that has not asked its model for a silent model, for as long as is bearable."""
        session = copy.engine.session(SESSION)
        assert session is not None
        assert session.turn is not None
        if self.tells_requests and timer.name == "first_token" and run.state == "starting":
            assert session.turn.attempt.unasked_s >= LONGEST_UNASKED_S

    @rule(seconds=st.floats(0.1, 40))
    def time_passes(self, seconds: float) -> None:
        self.host.clock += seconds

    @rule()
    def pipe_breaks(self) -> None:
        """Lose a copy with all it knew and waited for; a new one takes its place."""
        copy = self.plugins[-1]
        for call in copy.calls:
            self.lost += isinstance(call, Prompt)
        self.restarted.add(copy.number)
        self.copy_died = True
        self.host.deliveries[copy.number].clear()
        made = self.new_engine(copy.engine.settings)
        self.plugins[-1] = Copy(copy.number, made, known_turn=copy.known_turn)
        self.look()

    @rule(data=st.data())
    def everything_settles(self, data: st.DataObject) -> None:
        """Deliver and execute until nothing is open; then nothing may be in flight, or run after a stop."""
        self.host.catch_up()
        while self.behind or self.calling or any("settle" in copy.timers for copy in self.plugins):
            for copy in self.behind:
                while self.host.deliveries[copy.number]:
                    self.deliver(copy)
            for copy in self.calling[:1]:
                self.host.execute(copy.calls.pop(0), data.draw(behaviours), copy.number)
            for copy in self.plugins:
                if not self.behind and not self.calling and (settle := copy.timers.pop("settle", None)):
                    self.host.clock += settle.after_s
                    self.fire(copy, settle)
        self.check_the_end()
        self.check_that_no_model_is_asked_without_end()

    def check_that_no_model_is_asked_without_end(self) -> None:
        """A run whose stream is cut again and again is left or ended, unless a message waits behind it."""
        run = self.host.run
        if self.copy_died or self.lost or self.refused or run is None or run.behaviour != "cut":
            return
        if run.state == "starting" and self.host.queued is None:
            self.host_progresses("cut")
            for copy in self.behind:
                while self.host.deliveries[copy.number]:
                    self.deliver(copy)
            assert self.calling, "nobody ends the run"

    def check_the_end(self) -> None:
        """Nothing is in flight, runs after a stop, or is hidden for good."""
        for copy in self.plugins:
            assert SESSION not in copy.engine.switching.in_flight
        if self.stopped and self.host.run is not None and self.host.run.state == "starting":
            self.host_progresses("answer")
        if self.stopped and not self.forgot_a_stop:
            assert not self.host.busy
        if not self.copy_died:
            assert not self.host.hidden, "the user's message is gone with the next prompt"

    @invariant()
    def one_switch_at_most_is_open(self) -> None:
        for copy in self.plugins:
            session = copy.engine.session(SESSION)
            if session is not None:
                assert (session.switch is not None) == (SESSION in copy.engine.switching.in_flight)


class TerminalMachine(FallbackMachine):
    """A live terminal UI, where a turn is taken back and sent anew."""

    host_kind: HostKind = "tui"


class BridgeMachine(FallbackMachine):
    """A host that tells when it asks a model, as OpenCode does with the plugin in it."""

    tells_requests = True


class TwoCopiesMachine(FallbackMachine):
    """The plugin loaded twice: both copies see everything, a lease decides who acts."""

    copies = 2


TestInvariants = FallbackMachine.TestCase
TestInvariants.settings = settings(
    stateful_step_count=40,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
TestTerminal = TerminalMachine.TestCase
TestTerminal.settings = TestInvariants.settings
TestBridge = BridgeMachine.TestCase
TestBridge.settings = TestInvariants.settings
TestTwoCopies = TwoCopiesMachine.TestCase
TestTwoCopies.settings = TestInvariants.settings
