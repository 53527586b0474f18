"""Long sessions of our own host: every prompt's failure is answered as the first one's is.

What a host does not promise is drawn: ids and their order, whether a run's start is said before its message
is shown, a clock that is set back, an idle between two runs, older messages that are published again.
"""

from typing import Any, Final

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule

from fallback_plugin.events import Ending, HostError
from fallback_plugin.fallback.effects import Abort, Prompt
from fallback_plugin.fallback.engine import Engine
from fallback_plugin.hookspecs import ModelAttempt
from fallback_plugin.model_ref import ModelRef
from tests.fallback.stage import ABORTED, PRIMARY, A, B, Stage
from tests.fallback.stage import settings as chain_settings

pytestmark = pytest.mark.timeout(7200)

EVERYONE: Final = frozenset({PRIMARY, A, B})
FAILURES: Final[dict[str, tuple[Ending, int | None]]] = {
    "429": ("refused", 429),
    "500": ("refused", 500),
    "401": ("refused", 401),
    "empty": ("empty", None),
    "cut": ("cut", None),
}
ids: Final = st.text("0123456789abcdefXYZ", min_size=1, max_size=6)


class OwnHostMachine(RuleBasedStateMachine):
    """A user, our host and one session; a turn's request fails at any of its steps."""

    def __init__(self) -> None:
        super().__init__()
        made = chain_settings(cooldown=0, max_attempts=20)
        self.stage = Stage(Engine(made, host_kind="agent"))
        self.used: set[str] = set()
        self.turn: str | None = None
        self.asked: list[ModelRef] = []
        self.over: list[tuple[str, dict[str, Any]]] = []

    def fresh(self, drawn: str) -> str:
        """Return a new id that begins as drawn, so that its place in any order is drawn as well."""
        made = f"msg_{drawn}_{len(self.used)}"
        self.used.add(made)
        return made

    @precondition(lambda self: self.turn is None)
    @rule(message=ids, step=ids, busy_first=st.booleans(), set_back_s=st.sampled_from([0, 0, 0, 3600]))
    def user_prompts(self, message: str, step: str, *, busy_first: bool, set_back_s: int) -> None:
        """Begin a turn; its first model is asked."""
        stage, self.turn = self.stage, self.fresh(message)
        stage.now += 1
        info: dict[str, Any] = {"time": {"created": (stage.now - set_back_s) * 1000}}
        if busy_first:
            stage.busy()
        stage.user(self.turn, **info)
        if not busy_first:
            stage.busy()
        self.over.append((self.turn, info))
        self.asked = [PRIMARY]
        self.step(step)

    def step(self, drawn: str) -> None:
        assert self.turn is not None
        self.stage.answer(self.fresh(drawn), self.asked[-1], parent=self.turn)

    @precondition(lambda self: self.turn is not None)
    @rule(kind=st.sampled_from(sorted(FAILURES)), step=ids)
    def request_fails(self, kind: str, step: str) -> None:
        """Expect the next model of the chain; after the last one the turn ends, and says so."""
        stage, (ending, status) = self.stage, FAILURES[kind]
        assert self.turn is not None
        request = ModelAttempt(
            session_id=stage.session,
            message_id=self.turn,
            agent="build",
            host_model=self.asked[-1],
            model=self.asked[-1],
            tried=tuple(self.asked),
            error=HostError(name="", status_code=status),
            ending=ending,
            reachable=EVERYONE,
            is_fixed=False,
        )
        stage.look()
        answer, effects = stage.engine.attempt_failed(request, stage.now)
        stage.take(effects)
        expected = [model for model in (A, B) if model not in self.asked]
        assert answer == (expected[0] if expected else None)
        if isinstance(answer, ModelRef):
            self.asked.append(answer)
            self.step(step)
        else:
            self.end(outcome="failed")

    @precondition(lambda self: self.turn is not None)
    @rule(step=ids)
    def tool_step_is_done(self, step: str) -> None:
        """Ask the same model for a next step."""
        self.step(step)

    @precondition(lambda self: self.turn is not None)
    @rule(idle=st.booleans())
    def turn_is_answered(self, *, idle: bool) -> None:
        """End a turn well; where a prompt waits in the host's queue, no idle comes before it begins."""
        self.end(outcome="completed", idle=idle)

    @precondition(lambda self: self.turn is not None)
    @rule()
    def user_stops(self) -> None:
        """Stop a turn: its requests that fail are answered by nobody."""
        self.end(outcome="cancelled")

    def end(self, *, outcome: str, idle: bool = True) -> None:
        stage, turn = self.stage, self.turn
        assert turn is not None
        info: dict[str, Any] = {"time": {"created": 1, "completed": 2}}
        if outcome == "completed":
            info["finish"] = "stop"
        else:
            error = {"name": "APIError", "data": {"message": "refused", "isRetryable": False}}
            info["error"] = ABORTED if outcome == "cancelled" else error
            stage.error(info["error"])
        stage.answer(self.fresh("end"), self.asked[-1], parent=turn, **info)
        if idle:
            stage.idle()
        self.turn = None

    @precondition(lambda self: self.over)
    @rule(data=st.data())
    def older_message_is_published_again(self, data: st.DataObject) -> None:
        """Show a message once more, as hosts do when they summarise."""
        message, info = data.draw(st.sampled_from(self.over[-5:]))
        self.stage.user(message, **info)

    @rule()
    def nothing_is_stopped_or_sent(self) -> None:
        """Never stop or send anything: what fails is answered within the run."""
        assert self.stage.all(Abort) == []
        assert self.stage.all(Prompt) == []


TestOwnHost = OwnHostMachine.TestCase
TestOwnHost.settings = settings(
    max_examples=60,
    stateful_step_count=150,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
