"""What users report about the host's own retries, stalls and waits; rows are those of ``docs/reports.md``."""

from typing import Final

import pytest

from fallback_plugin.fallback import effects
from fallback_plugin.fallback.engine import Engine
from fallback_plugin.model_ref import ModelRef
from fallback_plugin.settings import Settings
from tests.fallback.stage import PRIMARY, A, B, Stage, api_error, settings
from tests.fallback.turns import end, fire, rate_limited, running


@pytest.mark.parametrize(
    "text", ["Internal server error", "Service Unavailable: {}", "Provider is overloaded"]
)
def test_complaint_26_the_hosts_first_retry_is_the_last_of_that_model(text: str) -> None:
    stage = running()
    stage.retry(text)
    stage.aborted()
    assert stage.asked == [A]


def test_complaint_26_what_nobody_understands_is_retried_once_and_no_more() -> None:
    stage = running()
    stage.retry("Something odd happened")
    stage.retry("Something odd happened", attempt=2)
    stage.aborted()
    assert stage.asked == [A]


@pytest.mark.parametrize("wait_s", [61, 3_600])
def test_complaint_27_a_long_retry_after_is_not_waited_for(wait_s: float) -> None:
    stage = running()
    stage.retry(next_in=wait_s)
    assert len(stage.all(effects.Abort)) == 1
    stage.aborted()
    assert stage.asked == [A]


def test_complaint_28_with_another_model_at_hand_no_retry_of_the_same_is_spent() -> None:
    stage = running()
    stage.error(api_error(503))
    stage.aborted()
    assert stage.asked == [A]
    assert PRIMARY not in stage.asked


@pytest.mark.parametrize("kind", ["text", "reasoning"])
def test_complaint_31_a_stream_that_stalls_is_left(kind: str) -> None:
    stage = running(stall_timeout="120s")
    stage.content("msg_2", kind)
    fire(stage)
    stage.aborted()
    assert stage.asked == [A]


def test_complaint_31_a_long_tool_is_no_stall() -> None:
    stage = running(stall_timeout="120s")
    part = {"id": "prt_1", "sessionID": stage.session, "messageID": "msg_2", "type": "tool"}
    stage.host("message.part.updated", part={**part, "state": {"status": "running"}})
    for _ in range(10):
        fire(stage)
    assert stage.all(effects.Claim) == []


@pytest.mark.parametrize("kind", ["step-start", "reasoning"])
def test_complaint_32_an_answer_without_a_word_is_a_failure(kind: str) -> None:
    stage = running()
    stage.content("msg_2", kind)
    end(stage, "msg_2")
    assert [claim.attempt for claim in stage.all(effects.Claim)] == [1]


@pytest.mark.parametrize("kind", ["text", "tool"])
def test_complaint_32_a_word_or_a_tool_call_is_an_answer(kind: str) -> None:
    stage = running()
    stage.content("msg_2", kind)
    end(stage, "msg_2")
    assert stage.all(effects.Claim) == []


def test_complaint_33_throttled_tokens_are_a_rate_limit_and_no_overflow() -> None:
    stage = running()
    stage.error(api_error(429, "ThrottlingException: Too many tokens, please wait before trying again."))
    stage.aborted()
    assert stage.asked == [A]
    assert stage.toasts[0].message.startswith("fake/primary: rate limited")


OVERFLOW: Final = {"name": "ContextOverflowError", "data": {"message": "Session too large to compact"}}


@pytest.mark.parametrize(
    "error",
    [
        OVERFLOW,
        api_error(400, "prompt is too long: 250000 tokens > 200000 maximum"),
        api_error(400, "input token count is 250000"),
    ],
)
def test_complaint_34_an_overflow_is_never_sent_to_another_model(error: dict[str, object]) -> None:
    stage = running()
    stage.error(error)
    stage.answer("msg_2", error=error)
    assert stage.all(effects.Abort) == []
    assert stage.prompts == []


def test_complaint_36_a_failing_compaction_has_the_chain_of_the_session_it_is_for() -> None:
    chains = {"plan": {"fallback_models": ["third/b"]}, "compaction": {"fallback_models": ["fake/c"]}}
    made = Settings.model_validate({**settings().model_dump(), "agents": chains})
    stage = Stage(Engine(made))
    stage.user(agent="plan")
    stage.answer("msg_2", agent="compaction", summary=True)
    stage.retry()
    stage.aborted()
    assert stage.asked == [B]


def test_complaint_36_a_failing_title_never_moves_the_sessions_model() -> None:
    stage = rate_limited()
    stage.fail_over("msg_3", A)
    stage.answer("msg_9", ModelRef("fake", "small"), parent="msg_title", agent="title", error=api_error(429))
    assert stage.asked == [A]
    assert stage.state.state is not None
    assert (stage.state.state.original, stage.state.state.current) == (PRIMARY, A)


@pytest.mark.parametrize("text", ["You exceeded your current quota", "Usage limit has been reached"])
def test_complaint_37_a_spent_quota_is_left_at_the_first_sign(text: str) -> None:
    stage = running()
    stage.retry(text)
    assert len(stage.all(effects.Abort)) == 1


def test_complaint_38_too_many_at_once_in_one_session_moves_no_other() -> None:
    stage = running()
    other = Stage(stage.engine, session="ses_2")
    other.user()
    other.answer("msg_2")
    stage.retry("[1302] High concurrency usage of this API")
    assert other.all(effects.Claim) == []
    assert other.state.switch is None
