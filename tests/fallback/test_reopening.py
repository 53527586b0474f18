"""A turn whose models have all failed goes to one that opens while the host still waits."""

import json
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from fallback_plugin.fallback import effects
from fallback_plugin.fallback.decisions import _plain, last_answers
from fallback_plugin.fallback.effects import Fetched, TimerFired
from fallback_plugin.fallback.engine import Engine
from fallback_plugin.fallback.policy import RETRIES
from fallback_plugin.model_ref import ModelRef
from fallback_plugin.wire.message import read_history
from tests.fallback import test_invariants
from tests.fallback.simulated_host import SESSION
from tests.fallback.stage import ABORTED, PRIMARY, A, B, Stage, api_error, settings
from tests.fallback.test_invariants import Copy, FallbackMachine

pytestmark = pytest.mark.timeout(7200)


def exhausted(wait_s: float = 30, chain: tuple[str, ...] = ("spare/a", "third/b"), **changes: Any) -> Stage:
    """A turn whose primary and first fallback are closed for 3 and 6 s; the host waits for the last model."""
    stage = Stage(Engine(settings(chain, **changes)))
    stage.user()
    stage.answer("msg_2")
    stage.retry(next_in=3)
    stage.fail_over_silently("msg_3", A)
    stage.retry(next_in=6)
    stage.fail_over_silently("msg_4", B)
    stage.retry(next_in=wait_s)
    return stage


HISTORY = [
    {
        "info": {
            "id": "msg_1",
            "sessionID": "ses_1",
            "role": "user",
            "agent": "build",
            "time": {"created": 1},
            "model": {"providerID": "third", "modelID": "b"},
        },
        "parts": [
            {"id": "prt_0", "sessionID": "ses_1", "messageID": "msg_1", "type": "text", "text": "Please"}
        ],
    }
]


def look_again(stage: Stage) -> None:
    """Let the timer of the next look run out."""
    timer = stage.last(effects.StartTimer)
    assert timer.name == "reopen"
    stage.now += timer.after_s
    stage.tell(TimerFired(timer.session_id, timer.name, timer.attempt))


def test_P10_the_turn_goes_to_the_model_that_opens_first() -> None:
    stage = exhausted()
    assert stage.asked == [A, B]
    assert [toast.title for toast in stage.toasts][-1] == "All fallbacks exhausted"
    look_again(stage)
    stage.fail_over("msg_5", PRIMARY)
    assert stage.asked == [A, B, PRIMARY]
    assert stage.toasts[-2].message == "third/b: rate limited. Trying fake/primary …"
    assert stage.toasts[-1].message.startswith("Now on fake/primary. spare/a: rate limited, rests until ")
    assert stage.state.state is not None
    assert (stage.state.state.current, stage.state.state.index) == (PRIMARY, -1)


def test_P10_a_live_screen_gets_its_prompt_anew() -> None:
    stage = exhausted()
    stage.engine.host_kind = "tui"
    look_again(stage)
    stage.aborted()
    stage.finish(stage.last(effects.FetchMessages), Fetched(messages=tuple(read_history(HISTORY))))
    stage.finish(stage.last(effects.Revert))
    prompt = stage.prompts[-1]
    assert (prompt.model, prompt.message_id, len(prompt.parts)) == (PRIMARY, None, 1)


def test_P10_with_more_open_the_first_of_the_chain_is_taken() -> None:
    stage = exhausted()
    stage.now += 10
    stage.retry(attempt=2, next_in=30)
    stage.aborted()
    assert stage.asked == [A, B, PRIMARY]


def test_P10_nothing_is_sent_before_a_model_opens() -> None:
    stage = exhausted()
    for attempt in (2, 3, 4):
        stage.retry(attempt=attempt)
    assert stage.asked == [A, B]
    assert len(stage.all(effects.Abort)) == 2


def test_P10_each_model_is_gone_back_to_once() -> None:
    stage = exhausted()
    for message, model in (("msg_5", PRIMARY), ("msg_6", A), ("msg_7", B)):
        stage.now += 100
        stage.retry(attempt=2, next_in=30)
        stage.fail_over_silently(message, model)
        stage.retry(next_in=30)
    asked = [A, B, PRIMARY, A, B]
    assert stage.asked == asked
    for attempt in (2, 3, 4):
        stage.now += 1000
        stage.retry(attempt=attempt)
    assert stage.asked == asked
    assert [toast.title for toast in stage.toasts].count("All fallbacks exhausted") == 1


def test_P10_the_advances_of_the_turn_are_the_bound() -> None:
    stage = exhausted(max_attempts=2)
    stage.now += 100
    stage.retry(attempt=2)
    assert stage.asked == [A, B]


@pytest.mark.parametrize("moment", ["waiting", "looking"])
def test_P10_a_stop_of_the_user_ends_it(moment: str) -> None:
    stage = exhausted()
    if moment == "waiting":
        stage.answer("msg_4", B, time={"created": 1, "completed": 2})
    else:
        stage.error(ABORTED)
    stage.idle()
    stage.now += 100
    look_again(stage)
    assert stage.asked == [A, B]


def test_P10_a_host_that_has_given_up_is_left_alone() -> None:
    stage = exhausted()
    stage.busy()
    stage.error(api_error(429))
    stage.idle()
    stage.now += 100
    look_again(stage)
    assert stage.asked == [A, B]


def test_P10_a_host_that_asks_at_this_moment_is_not_disturbed() -> None:
    stage = exhausted()
    stage.busy()
    look_again(stage)
    assert stage.asked == [A, B]
    stage.content("msg_4")
    assert stage.health.view(stage.now).closed_until(B) < stage.now


def test_P10_what_is_cleared_counts_as_open() -> None:
    stage = exhausted()
    stage.health.clear([key for key, _ in stage.health.view(stage.now).entries()])
    look_again(stage)
    stage.aborted()
    assert stage.asked == [A, B, PRIMARY]


def test_P10_the_next_look_is_never_far() -> None:
    stage = Stage(Engine(settings(("spare/a",))))
    stage.user()
    stage.answer("msg_2")
    stage.retry(next_in=3600)
    stage.fail_over_silently("msg_3", A)
    stage.retry(next_in=3600)
    assert stage.last(effects.StartTimer).after_s == 5
    look_again(stage)
    assert len([each for each in stage.all(effects.StartTimer) if each.name == "reopen"]) == 2


@pytest.mark.parametrize("status", [401, 402, 404])
def test_P10_a_model_that_time_does_not_heal_is_not_gone_back_to(status: int) -> None:
    stage = Stage(Engine(settings(("spare/a",))))
    stage.user()
    stage.answer("msg_2")
    stage.error(api_error(status))
    stage.idle()
    stage.fail_over_silently("msg_3", A)
    stage.retry(next_in=30)
    stage.now += 1000
    stage.retry(attempt=2)
    assert stage.asked == [A]


def test_P10_a_model_that_was_closed_from_the_start_is_taken_when_it_opens() -> None:
    stage = Stage(Engine(settings(("spare/a", "third/b"))))
    stage.close(A, stage.now + 4)
    stage.user()
    stage.answer("msg_2")
    stage.retry(next_in=30)
    stage.fail_over_silently("msg_3", B)
    stage.retry(next_in=30)
    look_again(stage)
    stage.aborted()
    assert stage.asked == [B, A]


def test_P10_a_model_that_somebody_else_probes_is_left_to_them() -> None:
    stage = exhausted()
    other = Stage(Engine(settings()), session="ses_2", now=stage.now + 3, health=stage.health)
    assert other.choose(PRIMARY) is None
    stage.now += 3
    stage.retry(attempt=2)
    assert stage.asked == [A, B]
    stage.now += 4
    stage.retry(attempt=3)
    stage.aborted()
    assert stage.asked == [A, B, A]


def test_P10_every_reason_is_kept_with_the_decision() -> None:
    written = [json.loads(json.dumps(_plain(each, 0.0))) for each in exhausted().all(effects.Record)]
    end = last_answers(written)[-1][0]
    assert end["decision"] == "exhausted"
    assert (end["why"]["failed"], end["why"]["kind"]) == ("third/b", "rate_limit")
    assert [(each["model"], each["reason"]) for each in end["why"]["passed_over"]] == [
        ("fake/primary", "rate limited"),
        ("spare/a", "rate limited"),
    ]


def test_P10_two_copies_go_back_once() -> None:
    one = exhausted()
    other = Stage(Engine(settings()), health=one.health, now=one.now, grants_leases=False)
    other.user()
    other.answer("msg_2")
    other.retry(next_in=3)
    assert other.asked == []
    for model, message in ((A, "msg_3"), (B, "msg_4")):
        other.user("msg_1", model)
        other.answer(message, model)
        other.retry(next_in=30)
    other.now += 100
    other.retry(attempt=2)
    assert other.all(effects.Abort) == []


def test_P10_a_variant_keeps_its_place() -> None:
    high = ModelRef("spare", "a", "high")
    stage = Stage(Engine(settings(("spare/a:high", "third/b"))))
    stage.user()
    stage.answer("msg_2")
    stage.retry(next_in=30)
    stage.fail_over_silently("msg_3", high)
    stage.retry(next_in=6)
    stage.fail_over_silently("msg_4", B)
    stage.retry(next_in=30)
    stage.now += 7
    stage.retry(attempt=2)
    stage.aborted()
    assert stage.asked == [high, B, high]


class ReopeningMachine(FallbackMachine):
    """The machine of the invariants, in which hosts wait for long and models open meanwhile."""

    max_attempts = 8

    @precondition(lambda self: self.host.run is not None and self.host.run.state == "waiting")
    @rule(seconds=st.floats(20, 80))
    def host_waits_on(self, seconds: float) -> None:
        """Let a wait last; the host asks again only after that."""
        self.host.clock += seconds
        for copy in self.behind:
            while self.host.deliveries[copy.number]:
                self.deliver(copy)
        for copy in self.plugins:
            if timer := copy.timers.pop("reopen", None):
                self.fire(copy, timer)

    @precondition(lambda self: not (self.host.busy or self.behind or self.calling))
    @rule()
    def every_model_is_limited(self) -> None:
        """Take a turn to where the host waits to ask the last model again."""
        self.host.clock += 100
        self.person_prompts(PRIMARY, "rate_limit")
        for _ in range(len(self.plugins[0].engine.settings.fallback.fallback_models) + 1):
            self.host.progress("rate_limit")
            while self.behind or self.calling:
                for copy in self.behind:
                    self.deliver(copy)
                for copy in self.calling:
                    self.host.execute(copy.calls.pop(0), "rate_limit", copy.number)

    def pipe_breaks(self) -> None:
        """Keep the copy: a new one would not know that the turn is exhausted."""

    @rule()
    def everything_is_cleared(self) -> None:
        self.health.clear([key for key, _ in self.health.view(self.now).entries()])

    def check_prompt(self, copy: Copy, prompt: effects.Prompt) -> None:
        """A prompt keeps the invariants; a model is gone back to at most once in a turn."""
        super().check_prompt(copy, prompt)
        session = copy.engine.session(SESSION)
        assert session is not None
        assert session.turn is not None
        dispatched = [attempt.model for attempt in session.turn.attempts if attempt.dispatched]
        assert max(map(dispatched.count, dispatched)) <= 2 + RETRIES["unknown"]


TestReopening = ReopeningMachine.TestCase
TestReopening.settings = test_invariants.TestInvariants.settings
