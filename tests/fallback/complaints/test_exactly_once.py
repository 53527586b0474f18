"""What users of other plugins report about exactly-once, aborts and loops; rows as in ``docs/reports.md``."""

from typing import Any, Final

import anyio
import pytest

from fallback_plugin.events import StoredMessage, UserMessage
from fallback_plugin.fallback import effects
from fallback_plugin.fallback.effects import Done, Fetched
from fallback_plugin.fallback.engine import Engine
from fallback_plugin.fallback.plugin import FallbackPlugin
from fallback_plugin.health import MemoryHealth
from fallback_plugin.host_client import Receipt
from fallback_plugin.settings import Settings
from tests.fallback.stage import ABORTED, PRIMARY, A, B, Stage, api_error, settings
from tests.fallback.stuck_host import StuckHost, event, refuse_key
from tests.fallback.turns import answered, answering, awaiting, fire, next_turn, rate_limited, running

THRESHOLD: Final = "All codex accounts reached configured quota threshold (reset after 19h 24m 10s)"


def test_complaint_01_our_own_aborts_error_never_starts_the_chain_over() -> None:
    stage = rate_limited()
    for message, model in (("msg_3", A), ("msg_4", B)):
        stage.error(ABORTED)
        stage.idle()
        stage.finish(stage.last(effects.Abort), Done(Receipt(stage.sequence - 2, stage.sequence)))
        stage.accepted()
        stage.began(message, model)
        stage.retry()
    assert stage.asked == [A, B]
    assert stage.toasts[-1].title == "All fallbacks exhausted"
    assert stage.state.state is not None
    assert stage.state.state.attempts == 2


def test_complaint_02_a_model_whose_prompt_was_rejected_is_not_chosen_again() -> None:
    stage = rate_limited()
    stage.aborted()
    stage.refused()
    user = UserMessage(id="msg_1", session_id="ses_1", model=PRIMARY, created_at=1.0)
    stage.finish(stage.last(effects.FetchMessages), Fetched(messages=(StoredMessage(info=user),)))
    stage.aborted()
    stage.accepted()
    stage.user("msg_1", B)
    stage.answer("msg_4", B)
    stage.retry()
    assert stage.asked == [A, B]
    assert stage.toasts[-1].title == "All fallbacks exhausted"


def test_complaint_03_progress_along_the_chain_survives_the_users_stop() -> None:
    stage = answering()
    stage.error(ABORTED)
    stage.idle()
    next_turn(stage)
    stage.retry()
    stage.aborted()
    assert stage.asked == [A, B]


@pytest.mark.parametrize("text", [THRESHOLD, "Rate limit reached"])
def test_complaint_04_a_limit_said_again_and_again_is_one_failure(text: str) -> None:
    stage = running()
    for attempt in range(1, 6):
        stage.retry(text, attempt=attempt)
    stage.aborted()
    stage.accepted()
    for attempt in range(6, 9):
        stage.retry(text, attempt=attempt)
    assert stage.asked == [A]
    assert len(stage.all(effects.Claim)) == 1


def test_complaint_06_now_on_is_said_by_the_model_that_answers_and_not_at_dispatch() -> None:
    stage = rate_limited()
    stage.content("msg_2")
    stage.aborted()
    stage.accepted()
    stage.content("msg_2")
    stage.user("msg_1", A)
    stage.answer("msg_3", A)
    assert [toast.message for toast in stage.toasts] == ["fake/primary: rate limited. Trying spare/a …"]
    stage.content("msg_3")
    assert stage.toasts[-1].message.startswith("Now on spare/a.")


def test_complaint_07_the_same_text_of_another_model_is_another_failure() -> None:
    stage = running()
    stage.retry("rate limit")
    stage.fail_over("msg_3", A)
    stage.retry("rate limit")
    stage.aborted()
    assert stage.asked == [A, B]


def test_complaint_08_the_retries_of_one_message_are_one_failure() -> None:
    stage = running()
    for attempt, wait_s in ((1, 2), (2, 4), (3, 8)):
        stage.retry(attempt=attempt)
        stage.now += wait_s
    stage.aborted()
    assert stage.asked == [A]


def test_complaint_09_one_retry_event_is_enough_and_its_wait_is_kept() -> None:
    stage = running()
    stage.retry(next_in=19_920)
    stage.aborted()
    stage.accepted()
    assert stage.asked == [A]
    assert stage.last(effects.CloseModel).until == pytest.approx(stage.now + 19_920, abs=1)


def test_complaint_11_a_healthy_fallback_may_take_its_time() -> None:
    stage = Stage(Engine(Settings.model_validate({"fallback": {"fallback_models": ["spare/a", "third/b"]}})))
    stage.user()
    stage.answer("msg_2")
    stage.retry()
    stage.aborted()
    stage.accepted()
    stage.user("msg_1", A)
    stage.answer("msg_3", A)
    assert stage.last(effects.StartTimer).after_s > 40
    stage.content("msg_3", "reasoning")
    fire(stage, after_s=40)
    assert stage.asked == [A]


def test_complaint_12_no_prompt_after_user_cancel() -> None:
    stage = answering()
    stage.error(ABORTED)
    stage.idle()
    stage.idle()
    stage.answer("msg_3", A, error=ABORTED, time={"created": 1, "completed": 2})
    stage.idle()
    for attempt in (1, 2, 3):
        stage.retry(attempt=attempt)
        stage.error(api_error(429))
    assert stage.asked == [A]
    assert len(stage.all(effects.Abort)) == 1


def test_complaint_13_the_turn_is_sent_again_in_place() -> None:
    stage = rate_limited()
    stage.aborted()
    assert [(prompt.message_id, prompt.parts) for prompt in stage.prompts] == [("msg_1", ())]


@pytest.mark.parametrize("error", [api_error(429), api_error(503), api_error(401)])
def test_complaint_14_a_late_error_of_the_first_model_does_not_end_the_seconds_answer(
    error: dict[str, Any],
) -> None:
    stage = answering()
    stage.answer("msg_2", error=error)
    stage.idle()
    stage.content("msg_3")
    assert stage.asked == [A]
    assert len(stage.all(effects.Abort)) == 1


def test_complaint_16_a_model_of_the_chain_that_the_user_picked_is_not_recovered_away() -> None:
    stage = answered()
    stage.choose(B)
    stage.user("msg_5", B)
    stage.answer("msg_6", B, parent="msg_5")
    stage.content("msg_6")
    stage.idle()
    stage.now += 3_600
    assert stage.choose(B) is None
    assert stage.state.state is not None
    assert (stage.state.state.original, stage.state.state.current) == (B, B)


def test_complaint_16_when_the_picked_model_fails_the_chain_is_tried_from_its_beginning() -> None:
    stage = answered()
    stage.choose(B)
    stage.user("msg_5", B)
    stage.answer("msg_6", B, parent="msg_5")
    stage.retry()
    stage.aborted()
    assert stage.asked == [A]


@pytest.mark.anyio
async def test_complaint_19_no_hook_waits_for_a_call_to_the_host() -> None:
    plugin = FallbackPlugin(clock=lambda: 1_000.0, health=MemoryHealth())
    async with anyio.create_task_group() as tasks:
        host: Any = StuckHost(tasks)
        plugin.settings_changed(settings(), host)
        refuse_key(plugin, host)
        await anyio.wait_all_tasks_blocked()
        assert host.calls == ["session", "abort"]
        plugin.session_idle(event("session.idle"), host)
        session = plugin.engine.session("ses_1")
        assert session is not None
        assert session.switch is not None
        assert len(session.switch.idles) == 1, "the abort's own idle came in while the call was open"
        tasks.cancel_scope.cancel()


def test_complaint_21_two_signals_in_the_same_moment_are_one_failure() -> None:
    stage = running()
    stage.error(api_error(429))
    stage.answer("msg_2", error=api_error(429))
    assert len(stage.all(effects.Claim)) == 1
    assert len(stage.all(effects.Abort)) == 1


@pytest.mark.parametrize("outcome", [effects.Done(), effects.Failed("no answer in 10 s")])
def test_complaint_22_a_prompt_that_was_lost_is_found_out(outcome: effects.Outcome) -> None:
    stage = rate_limited(first_token_timeout="30s")
    stage.aborted()
    stage.finish(stage.last(effects.Prompt), outcome)
    fire(stage)
    stage.aborted()
    assert stage.asked == [A, B]


def test_complaint_24_a_host_that_asks_for_the_primary_every_turn_stays_on_the_fallback() -> None:
    stage = answered()
    for number in range(5, 25, 2):
        assert stage.choose(PRIMARY) == A
        stage.user(f"msg_{number}", A)
        stage.answer(f"msg_{number + 1}", A, parent=f"msg_{number}")
        stage.content(f"msg_{number + 1}")
        stage.idle()
    assert stage.prompts == []
    assert stage.all(effects.Abort) == []
    assert stage.state.state is not None
    assert (stage.state.state.original, stage.state.state.current) == (PRIMARY, A)


def test_complaint_24_a_silent_fallback_is_left_once_a_turn() -> None:
    stage = awaiting(first_token_timeout="30s")
    fire(stage)
    fire(stage)
    stage.aborted()
    assert stage.asked == [A, B]
