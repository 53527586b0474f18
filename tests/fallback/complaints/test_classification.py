"""What users report about errors that were misread; rows are those of ``docs/reports.md``."""

from datetime import UTC, datetime
from typing import Any, Final

import pytest
from pydantic import ValidationError

from fallback_plugin.fallback import effects
from fallback_plugin.fallback.engine import Engine
from fallback_plugin.fallback.judgement import Judgement, judge
from fallback_plugin.settings import Settings
from tests.fallback.stage import PRIMARY, A, B, Stage, api_error, settings
from tests.fallback.turns import running

NOW: Final = datetime(2026, 8, 20, 10, 0, tzinfo=UTC).timestamp()


def judged(text: str, status: int | None = None, **report: Any) -> Judgement:
    return judge({"text": text, "http_status": status, **report}, NOW)


def retried(text: str, next_in_s: float = 2) -> Judgement:
    status = {"type": "retry", "attempt": 1, "message": text}
    return judge({"event": "session.status", "status": status, "next_in_s": next_in_s}, NOW)


@pytest.mark.parametrize(
    ("text", "kind"),
    [("Free usage exceeded, subscribe to Go", "quota"), ("[503] The request queue is full.", "overload")],
)
def test_complaint_41_texts_that_no_list_had_are_known(text: str, kind: str) -> None:
    assert retried(text).kind == kind


@pytest.mark.parametrize("text", ["usage limit exceeded, 5-hour window (2056)", "已达到套餐用量上限"])
def test_complaint_42_a_plans_limit_is_known_in_chinese_and_by_its_code(text: str) -> None:
    assert (judged(text).kind, judged(text).action) == ("quota", "fallback")


def test_complaint_43_a_weekly_limit_is_a_plans_limit_whatever_its_date() -> None:
    found = judged("Weekly/Monthly Limit Exhausted. Your limit will reset at 2026-05-20 15:43:27")
    assert (found.kind, found.scope, found.retry_after_s) == ("quota", "account", None)


def test_complaint_44_a_limit_of_hours_closes_for_hours() -> None:
    body = '{"error": {"type": "usage_limit_reached", "resets_in_seconds": 13872}}'
    stage = running()
    stage.error(api_error(429, "The usage limit has been reached", responseBody=body))
    stage.aborted()
    stage.accepted()
    (closed,) = stage.all(effects.CloseModel)
    assert closed.until == pytest.approx(stage.now + 13_872, abs=1)


@pytest.mark.parametrize("finish", ["stop", "length", "other", "max_tokens"])
def test_P13_an_end_without_a_word_is_an_empty_answer_whatever_it_is_called(finish: str) -> None:
    thought = {"type": "reasoning", "text": "Hm."}
    info: dict[str, Any] = {"finish": finish, "time": {"completed": 2}}

    found = judge({"event": "message.updated", "info": info, "parts": [thought]}, NOW)
    said = judge({"event": "message.updated", "info": info, "parts": [{"type": "text", "text": "Yes."}]}, NOW)

    assert found.kind == "empty_response"
    assert said.kind == "ok"


def test_complaint_46_a_duration_that_is_none_is_refused_with_its_key() -> None:
    with pytest.raises(ValidationError, match=r"fallback\.cooldown"):
        Settings.model_validate({"fallback": {"cooldown": "abc"}})


def test_complaint_46_a_403_about_a_quota_is_no_reason_to_try_the_same_again() -> None:
    assert judged("quota exceeded", 403).action == "fallback"


def test_complaint_47_a_monthly_limit_is_known() -> None:
    assert retried("Monthly usage limit reached").kind == "quota"


def test_complaint_48_an_unknown_model_is_left_once_though_it_is_said_twice() -> None:
    stage = running()
    for said in ("Model not found: p/m.", "ProviderModelNotFoundError: Model not found: p/m."):
        stage.error({"name": "UnknownError", "data": {"message": said}})
    stage.idle()
    stage.aborted()
    assert stage.asked == [A]


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("You've reached kimi monthly usage limit for this billing cycle.", "quota"),
        ("This request would exceed your account's monthly spend limit.", "billing"),
        ("Rate limit reached for requests", "rate_limit"),
    ],
)
def test_complaint_59_a_429_is_told_apart_by_what_it_says(text: str, kind: str) -> None:
    assert judged(text, 429).kind == kind


def test_complaint_61_hours_and_minutes_are_read() -> None:
    assert judged("5-hour usage limit reached. Resets in 4hr 59min").retry_after_s == 17_940


def test_complaint_62_a_used_up_plan_is_closed_until_its_date() -> None:
    text = "Your token-plan 1-week quota has been exhausted. The quota will reset at 08-27 15:33:00 UTC."
    found = judged(text, 429)
    reset = datetime(2026, 8, 27, 15, 33, tzinfo=UTC).timestamp()
    assert (found.kind, found.retry_after_s) == ("quota", reset - NOW)


def test_complaint_62_the_chain_never_steps_back_onto_a_model_that_failed() -> None:
    stage = running(cooldown=0)
    stage.error(api_error(429))
    for message, model in (("msg_3", A), ("msg_4", B)):
        stage.aborted()
        stage.accepted()
        stage.user("msg_1", model)
        stage.answer(message, model)
        stage.error(api_error(429))
    assert stage.asked == [A, B]


def test_complaint_63_a_400_that_means_a_rate_limit_leaves_the_model() -> None:
    found = judged("Detected high-frequency non-compliant requests from you.", 400)
    assert (found.kind, found.action) == ("rate_limit", "fallback")
    assert judged("prompt is too long, mind our rate limit", 400).kind == "overflow"


@pytest.mark.parametrize("model", ["glm-4.6", "glm-9"])
def test_complaint_64_a_code_counts_whatever_the_model_is_called(model: str) -> None:
    body = '{"error": {"code": "1305", "message": "busy"}}'
    assert (
        judge({"name": "APIError", "data": {"message": model, "responseBody": body}}, NOW).kind == "overload"
    )


@pytest.mark.parametrize("wait_s", [120, 1_000_000])
def test_complaint_66_with_a_candidate_left_no_long_wait_is_sat_out(wait_s: float) -> None:
    stage = running(policy={"rate_limit": {"retry": 0}})
    stage.retry("Rate limit reached", next_in=wait_s)
    stage.aborted()
    assert stage.asked == [A]


def test_complaint_67_one_budget_is_for_the_whole_turn() -> None:
    stage = Stage(Engine(settings(("spare/a", "third/b"), max_attempts=2, policy={"server": {"retry": 5}})))
    stage.user()
    stage.answer("msg_2")
    for number in range(4):
        stage.error(api_error(500))
        stage.idle()
        if len(stage.all(effects.Abort)) > number:
            stage.aborted()
            stage.accepted()
            stage.user("msg_1", stage.asked[-1])
            stage.answer(f"msg_{number + 3}", stage.asked[-1])
    assert len(stage.asked) <= 6


@pytest.mark.parametrize(
    "hint",
    ['{"error": {"details": [{"retryDelay": "1976.365s"}]}}', '{"error": {"resets_in_seconds": 72000}}'],
)
def test_complaint_86_a_hint_is_kept_up_to_a_day(hint: str) -> None:
    stage = running()
    stage.error(api_error(429, "quota exceeded", responseBody=hint))
    stage.aborted()
    stage.accepted()
    (closed,) = stage.all(effects.CloseModel)
    assert closed.until - stage.now > 1_900


def test_complaint_86_nonsense_is_no_hint() -> None:
    body = '{"error": {"resets_at": "9999-12-31T00:00:00Z"}}'
    assert (
        judge(
            {"name": "APIError", "data": {"message": "usage limit", "responseBody": body}}, NOW
        ).retry_after_s
        is None
    )


@pytest.mark.parametrize("status", [401, 403])
def test_complaint_91_a_key_refused_by_a_fallback_skips_that_entry(status: int) -> None:
    stage = running()
    stage.retry()
    stage.aborted()
    stage.accepted()
    stage.user("msg_1", A)
    stage.answer("msg_3", A)
    stage.error(api_error(status))
    stage.idle()
    stage.aborted()
    assert stage.asked == [A, B]


@pytest.mark.parametrize(
    "error",
    [
        {"name": "UnknownError", "data": {"message": "unable to verify the first certificate"}},
        {"name": "ContentFilterError", "data": {"message": "filtered"}},
        api_error(422, "1 validation error for Request"),
    ],
)
def test_complaint_92_a_verdict_not_to_fall_back_is_kept(error: dict[str, Any]) -> None:
    stage = running()
    stage.error(error)
    stage.idle()
    assert (stage.asked, stage.all(effects.Abort)) == ([], [])


@pytest.mark.parametrize(
    ("text", "status"),
    [
        ("model temporarily unavailable due to upstream capacity limits", 503),
        ("server_is_overloaded", 503),
        ("Unknown model: x", 400),
        ("model_not_supported", 400),
        ("The operation timed out.", None),
    ],
)
def test_complaint_93_all_of_them_lead_to_the_next_model(text: str, status: int | None) -> None:
    stage = running()
    stage.error(api_error(status, text) if status else {"name": "UnknownError", "data": {"message": text}})
    stage.idle()
    stage.aborted()
    assert stage.asked == [A]


def test_complaint_98_every_signal_goes_through_the_same_rules() -> None:
    text = "Free usage exceeded, subscribe to Go"
    part = {"type": "error", "text": text}
    reports: list[dict[str, Any]] = [
        {"text": text},
        {"name": "UnknownError", "data": {"message": text}},
        {"event": "session.status", "status": {"type": "retry", "message": text}},
        {"event": "session.error", "error": {"name": "APIError", "data": {"message": text}}},
        {"event": "message.part.updated", "part": part},
        {"event": "message.updated", "info": {"error": {"name": "APIError", "data": {"message": text}}}},
    ]
    assert {judge(report, NOW).kind for report in reports} == {"quota"}


@pytest.mark.parametrize(
    "error",
    ["Rate limit reached", {"message": "Rate limit reached"}, {"data": {"message": "Rate limit reached"}}],
)
def test_complaint_49_an_error_is_read_wherever_its_words_stand(error: Any) -> None:
    stage = running()
    stage.error(error)
    stage.idle()
    stage.aborted()
    assert stage.asked == [A]


def test_complaint_99_an_error_that_lost_its_status_is_known_by_what_is_inside() -> None:
    wrapped = 'Unexpected: {"error": {"message": "Incorrect API key provided", "code": "invalid_api_key"}}'
    assert judge({"name": "UnknownError", "data": {"message": wrapped}}, NOW).kind == "auth"


def test_complaint_99_what_says_nothing_costs_one_more_try_and_no_walk_through_the_chain() -> None:
    stage = running()
    stage.error({"name": "UnknownError", "data": {"message": "Unexpected server error"}})
    stage.idle()
    stage.aborted()
    assert stage.asked == [PRIMARY]


def test_complaint_101_a_done_run_without_output_is_a_failure() -> None:
    report = {"event": "message.updated", "info": {"role": "assistant", "finish": "stop"}, "parts": []}
    assert (judge(report, NOW).kind, judge(report, NOW).action) == ("empty_response", "retry_then_fallback")


def test_complaint_102_a_pool_that_lacks_the_model_is_not_retried() -> None:
    found = retried("Internal Server Error: No available Claude accounts support the requested model", 30)
    assert (found.kind, found.action) == ("model_not_found", "fallback")


@pytest.mark.parametrize(("policy", "asked"), [({}, [A]), ({"server": {"retry": 1}}, [PRIMARY])])
def test_complaint_103_whether_to_retry_first_is_the_persons_to_say(policy: Any, asked: list[Any]) -> None:
    stage = running(policy=policy)
    stage.error(api_error(500))
    stage.idle()
    stage.aborted()
    assert stage.asked == asked


def test_complaint_104_a_refused_image_says_nothing_against_the_model() -> None:
    found = judged("missing required Copilot-Vision-Request header for vision requests", 400)
    assert (found.kind, found.action) == ("unsupported_content", "no_fallback")
