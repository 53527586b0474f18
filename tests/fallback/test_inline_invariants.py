"""The same invariants where failed requests are answered inline, in the midst of everything else."""

from typing import Final

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from fallback_plugin.events import Ending, HostError
from fallback_plugin.fallback.effects import Effect, Failed, GiveUp, Outcome
from fallback_plugin.hookspecs import ModelAttempt
from fallback_plugin.model_ref import ModelRef
from tests.fallback.simulated_host import SESSION, Behaviour
from tests.fallback.stage import PRIMARY, A, B
from tests.fallback.stage import settings as chain_settings
from tests.fallback.test_invariants import MAX_ATTEMPTS, Copy, FallbackMachine, behaviours

pytestmark = pytest.mark.timeout(7200)

C: Final = ModelRef("fake", "c")
ERRORS: Final = {
    "rate_limit": HostError(name="", status_code=429, message="Rate limit reached"),
    "refuse_key": HostError(name="", status_code=401, message="refused"),
    "bad_request": HostError(name="", status_code=400, message="refused"),
    "say_nothing_of_use": HostError(name="", message="it did not work"),
}
"""How a request fails of a run that would behave so."""


class InlineMachine(FallbackMachine):
    """Before the host reports a failing request, the bridge asks what it is answered with."""

    def __init__(self) -> None:
        super().__init__()
        self.stand_ins: dict[int, ModelRef] = {}
        self.answered: list[tuple[int, ModelRef]] = []
        (copy,) = self.plugins
        copy.engine.settings = chain_settings(
            chain=("spare/a", "third/b", "fake/c"),
            max_attempts=MAX_ATTEMPTS,
            first_token_timeout="90s",
            stall_timeout="120s",
            cooldown="30s",
            switching="inline",
        )

    def take(self, copy: Copy, effects: list[Effect]) -> None:
        """Leave a silent request at once, as the bridge does; there is none once an answer flows."""
        for effect in effects:
            if not isinstance(effect, GiveUp):
                super().take(copy, [effect])
                continue
            run = self.host.run
            waits = run is not None and run.state in {"starting", "streaming"} and run.behaviour == "hang"
            outcome: Outcome | None = None if waits else Failed("no such request", 404)
            if outcome is not None:
                super().take(copy, copy.engine.finished(effect, outcome, self.now))
            else:
                self.ask("silent", HostError(name=""), frozenset({A, B, C}), "answer")

    @precondition(lambda self: self.host.run is not None and self.host.run.state == "starting")
    @rule(
        reachable=st.frozensets(st.sampled_from([PRIMARY, A, B, C])),
        caught_up=st.booleans(),
        behaviour=behaviours,
    )
    def request_fails(self, reachable: frozenset[ModelRef], *, caught_up: bool, behaviour: Behaviour) -> None:
        """Ask about a request that fails, before or after the events of its beginning were seen."""
        run, (copy,) = self.host.run, self.plugins
        assert run is not None
        if run.behaviour == "empty":
            ending: Ending = "empty"
        elif run.behaviour in ERRORS:
            ending = "refused"
        else:
            return
        while caught_up and self.host.deliveries[copy.number]:
            self.deliver(copy)
        if self.host.run is run:
            self.ask(ending, ERRORS.get(run.behaviour, HostError(name="")), reachable, behaviour)

    def ask(
        self, ending: Ending, error: HostError, reachable: frozenset[ModelRef], behaviour: Behaviour
    ) -> None:
        run, (copy,) = self.host.run, self.plugins
        assert run is not None
        asked = self.stand_ins.get(run.number, run.model)
        request = ModelAttempt(
            session_id=SESSION,
            message_id=run.turn,
            agent="build",
            host_model=run.model,
            model=asked,
            tried=(asked,),
            error=error,
            ending=ending,
            reachable=reachable,
        )
        self.look()
        answer, effects = copy.engine.attempt_failed(request, self.now)
        if isinstance(answer, ModelRef):
            self.check_answer(copy, asked, answer, reachable)
            self.stand_ins[run.number] = answer
            self.answered.append((run.number, answer))
            self.content_of.add(answer)
            run.behaviour, run.state, run.failed = behaviour, "starting", False
        self.take(copy, effects)

    def check_answer(
        self, copy: Copy, asked: ModelRef, answer: ModelRef, reachable: frozenset[ModelRef]
    ) -> None:
        """An answer is wanted, within reach, of a model that does not cool, and within the turn's budget."""
        assert answer in reachable or answer == asked
        assert not (self.stopped and self.has_seen_all(copy)), "the person had stopped it"
        session = copy.engine.session(SESSION)
        assert session is not None
        assert session.state is not None
        assert not session.state.cooling(answer, self.now) or answer == asked
        assert session.switch is None
        self.in_this_turn += 1
        assert self.in_this_turn <= MAX_ATTEMPTS * (1 + self.refused)


TestInline = InlineMachine.TestCase
TestInline.settings = settings(
    stateful_step_count=40,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
