"""What users report about models that should not have been taken; rows are those of ``docs/reports.md``."""

from typing import Any

from fallback_plugin.fallback import effects
from fallback_plugin.fallback.engine import Engine
from fallback_plugin.model_ref import ModelRef
from fallback_plugin.wire.model_catalog import read_catalog
from tests.fallback.stage import PRIMARY, A, B, Stage, settings
from tests.fallback.turns import answered, rate_limited


def stage_with(chain: tuple[Any, ...], **changes: Any) -> Stage:
    stage = Stage(Engine(settings(chain, **changes)))
    stage.user()
    stage.answer("msg_2")
    return stage


def test_complaint_52_a_provider_that_is_disabled_or_not_connected_is_passed_over() -> None:
    stage = stage_with(("spare/a", "third/b"))
    stage.engine.catalog = read_catalog(
        {"providers": [{"id": "fake", "models": {"primary": {}}}, {"id": "third", "models": {"b": {}}}]}
    )
    stage.retry()
    stage.aborted()
    assert stage.asked == [B]


def test_complaint_53_without_a_chain_no_model_is_taken_that_nobody_named() -> None:
    stage = stage_with(())
    stage.retry()
    assert stage.all(effects.Abort) == []
    assert [toast.title for toast in stage.toasts] == ["No fallback configured"]


def test_complaint_57_entries_that_differ_in_their_variant_are_different_candidates() -> None:
    stage = stage_with(("fake/primary:low", "spare/a"))
    stage.retry()
    stage.aborted()
    assert stage.asked == [ModelRef("fake", "primary", "low")]


def test_complaint_58_the_agent_goes_along() -> None:
    stage = Stage()
    stage.user(agent="plan")
    stage.answer("msg_2", agent="plan")
    stage.retry()
    stage.aborted()
    assert [prompt.agent for prompt in stage.prompts] == ["plan"]


def test_complaint_74_no_money_is_spent_that_nobody_agreed_to_spend() -> None:
    stage = stage_with(({"model": "spare/a", "paid": True}, "third/b"))
    stage.retry()
    stage.aborted()
    assert stage.asked == [B]


def test_complaint_96_a_fallback_is_never_taken_for_the_persons_choice() -> None:
    stage = answered()
    stage.now += 60
    assert stage.choose(None) == PRIMARY
    other = Stage(stage.engine, session="ses_2", now=stage.now)
    assert other.choose(PRIMARY) is None


def test_complaint_97_an_overflow_the_host_gave_up_goes_to_a_model_that_holds_more() -> None:
    stage = stage_with(("spare/a", "third/b"))
    sizes = {"fake": ("primary", 1000), "spare": ("a", 1000), "third": ("b", 2000)}
    stage.engine.catalog = read_catalog(
        {
            "providers": [
                {"id": home, "models": {name: {"limit": {"context": size}}}}
                for home, (name, size) in sizes.items()
            ]
        }
    )
    stage.error({"name": "ContextOverflowError", "data": {"message": "Session too large to compact"}})
    stage.idle()
    stage.aborted()
    assert stage.asked == [B]


def test_complaint_38_too_much_at_once_is_waited_for_once_before_the_model_is_left() -> None:
    stage = stage_with(("spare/a", "third/b"))
    stage.retry("High concurrency usage of this API")
    assert stage.all(effects.Abort) == []
    stage.retry("High concurrency usage of this API", attempt=2)
    stage.aborted()
    assert stage.asked == [A]


def test_complaint_39_a_plans_limit_is_not_tried_with_every_model_of_the_plan() -> None:
    stage = stage_with(("fake/second", "fake/third", "spare/a"))
    stage.retry("Weekly usage limit reached. Resets in 19hr")
    stage.aborted()
    assert stage.asked == [A]
    assert rate_limited().all(effects.Abort)
