"""How long a model may say nothing.

Expressed anew: 90 s by default instead of 30, which kills healthy reasoning models; reasoning, tool calls
and the host's own signals count as life; and a silence is one of a step, not of the time since the
dispatch. An answer that stops growing in its midst has a clock of its own, which stands still while a tool
works, and with it while a permission or a question is open, since both happen inside a tool.

Shown elsewhere (``test_engine.TestFirstToken``): silence is answered, any content is life, the fallback has
its own time, a stale timer, each step, a model's own time, zero. ``test_engine.TestStall``: a
stall, growth, a tool at work. ``tests/settings/test_tables.py``: the defaults.
"""

import pytest

from fallback_plugin.fallback import effects
from fallback_plugin.fallback.effects import Done, StopTimer, TimerFired
from fallback_plugin.fallback.engine import Engine
from fallback_plugin.hookspecs import ACTIVITY_EVERY_S
from fallback_plugin.host_client import Receipt
from fallback_plugin.settings import Settings
from tests.fallback.stage import ABORTED, A, B, Stage, settings
from tests.fallback.turns import answering, awaiting, fire, running

STALL_S = 120 + ACTIVITY_EVERY_S
"""Growth is seen only once in a while, so a stall is known that much later."""

WAIT = {"first_token_timeout": "90s", "stall_timeout": "120s"}


def tool(stage: Stage, status: str) -> None:
    part = {"id": "prt_9", "sessionID": stage.session, "messageID": "msg_2", "type": "tool"}
    stage.host("message.part.updated", part={**part, "state": {"status": status}})


def grow(stage: Stage, message: str = "msg_2") -> None:
    stage.host("message.part.delta", messageID=message, partID="prt_1", delta="…")


def test_the_hosts_own_parts_do_not_stop_the_clock() -> None:
    stage = running(**WAIT)
    stage.content("msg_2", "step-start")
    fire(stage)
    stage.error(ABORTED)
    stage.aborted()
    assert stage.asked == [A]


def test_a_stub_seen_again_does_not_begin_the_wait_anew_once_content_came() -> None:
    stage = running(**WAIT)
    stage.content("msg_2")
    assert stage.answer("msg_2") == []


def test_a_session_without_a_failure_is_left_alone_when_its_turn_is_over() -> None:
    stage = running(**WAIT)
    timer = stage.last(effects.StartTimer)
    stage.content("msg_2")
    stage.idle()
    stage.tell(TimerFired(timer.session_id, timer.name, timer.attempt))
    assert stage.all(effects.Claim) == []


def test_a_retry_wait_is_not_timed() -> None:
    stage = running(**WAIT, policy={"rate_limit": "ignore"})
    new = stage.retry()
    assert StopTimer(stage.session, "first_token") in new


def test_the_hosts_next_request_begins_the_wait_anew() -> None:
    stage = running(**WAIT, policy={"rate_limit": "ignore"})
    stage.retry()
    assert stage.busy() == [effects.StartTimer(stage.session, "first_token", 1, 90)]


def test_our_aborts_error_after_a_silence_is_no_stop() -> None:
    stage = running(**WAIT)
    fire(stage)
    sent_after = stage.sequence
    stage.error(ABORTED)
    stage.idle()
    stage.answer("msg_2", error=ABORTED)
    stage.idle()
    stage.finish(stage.last(effects.Abort), Done(Receipt(sent_after, stage.sequence)))
    assert stage.asked == [A]


def test_after_the_users_stop_silence_means_nothing() -> None:
    stage = running(**WAIT)
    stage.error(ABORTED)
    fire(stage)
    assert stage.all(effects.Abort) == []


def test_a_silence_of_one_session_is_not_anothers() -> None:
    stage = running(**WAIT)
    other = Stage(stage.engine, session="ses_2")
    other.user()
    other.answer("msg_2")
    fire(other)
    assert stage.engine.session("ses_1") is not None
    assert set(stage.engine.switching.in_flight) == {"ses_2"}


def test_a_fallbacks_wait_begins_when_the_host_took_the_prompt() -> None:
    stage = awaiting(**WAIT)
    assert stage.last(effects.StartTimer).name == "first_token"
    assert stage.last(effects.StartTimer).attempt == 2


class TestStall:
    """An answer that stops growing."""

    @pytest.fixture
    def stage(self) -> Stage:
        stage = running(**WAIT)
        stage.content("msg_2")
        return stage

    def test_the_clock_begins_with_the_first_content(self, stage: Stage) -> None:
        assert stage.last(effects.StartTimer) == effects.StartTimer(stage.session, "stall", 1, STALL_S)

    def test_text_of_a_message_that_is_not_the_present_step_gives_none(self, stage: Stage) -> None:
        stage.now += 100
        grow(stage, "msg_77")
        fire(stage, after_s=STALL_S - 100)
        assert len(stage.all(effects.Claim)) == 1

    def test_after_the_tool_the_clock_begins_anew(self, stage: Stage) -> None:
        tool(stage, "running")
        fire(stage)
        tool(stage, "completed")
        fire(stage, after_s=STALL_S - 1)
        assert stage.all(effects.Claim) == []
        fire(stage)
        assert len(stage.all(effects.Claim)) == 1

    def test_a_fallback_that_stalls_is_left_too(self) -> None:
        stage = answering(**WAIT)
        fire(stage)
        stage.aborted()
        assert stage.asked == [A, B]

    def test_zero_switches_it_off(self) -> None:
        stage = running(stall_timeout=0)
        stage.content("msg_2")
        assert stage.all(effects.StartTimer) == []

    def test_a_models_own_time_goes_before_the_general_one(self) -> None:
        made = settings(stall_timeout="120s").model_dump()
        made["models"] = {"fake/primary": {"stall_timeout": "10m"}}
        stage = Stage(Engine(Settings.model_validate(made)))
        stage.user()
        stage.answer("msg_2")
        stage.content("msg_2")
        assert stage.last(effects.StartTimer).after_s == 600 + ACTIVITY_EVERY_S
