import re

import pytest
from pydantic import ValidationError

from fallback_plugin.model_ref import ModelRef
from fallback_plugin.settings import FAILURE_KINDS, AgentSettings, FallbackSettings, Rule, Settings


def test_defaults_are_those_of_the_design() -> None:
    fallback = Settings().fallback
    assert (fallback.enabled, fallback.max_attempts, fallback.cooldown) == (True, 10, 60)
    assert (fallback.first_token_timeout, fallback.stall_timeout) == (90, 120)
    assert (fallback.notify, fallback.on_foreign_abort, fallback.fallback_models) == (True, "stop", ())


def test_nothing_can_be_changed_afterwards() -> None:
    settings = Settings.model_validate({"agents": {"x": {}}, "fallback": {"policy": {"auth": "stop"}}})
    with pytest.raises(ValidationError):
        settings.fallback.enabled = False
    with pytest.raises(TypeError):
        settings.agents["y"] = AgentSettings()  # type: ignore[index]
    with pytest.raises(TypeError):
        settings.fallback.policy["quota"] = "stop"  # type: ignore[index]


def test_equal_settings_are_equal() -> None:
    values = {"agents": {"x": {"model": "p/a"}}, "fallback": {"rules": [{"pattern": "x", "kind": "quota"}]}}
    one, other = Settings.model_validate(values), Settings.model_validate(values)
    assert one.fallback.rules[0].regex is not None
    assert one == other


def test_a_variant_outside_of_the_known_ones_survives() -> None:
    chain = FallbackSettings.model_validate({"fallback_models": {"model": "p/a", "variant": "thinking"}})
    assert chain.candidates == (ModelRef("p", "a", "thinking"),)


def test_an_entry_may_cost_money() -> None:
    settings = Settings.model_validate(
        {"fallback": {"fallback_models": ["p/a", {"model": "p/b", "variant": "high", "paid": True}]}}
    )
    assert [entry.paid for entry in settings.fallback.fallback_models] == [False, True]
    assert settings.model_dump()["fallback"]["fallback_models"] == (
        "p/a",
        {"model": "p/b:high", "paid": True},
    )


def test_paid_is_yes_or_no() -> None:
    with pytest.raises(ValidationError, match="write paid = true"):
        FallbackSettings.model_validate({"fallback_models": [{"model": "p/a", "paid": "yes"}]})


def test_models_are_kept_by_reference() -> None:
    settings = Settings.model_validate({"models": {"ollama/qwen3:8b": {"cooldown": "5m"}}})
    assert settings.models[ModelRef("ollama", "qwen3:8b")].cooldown == 300


def test_a_rule_is_searched_without_regard_to_case() -> None:
    assert Rule(pattern="queue is FULL", kind="overload").regex.search("The request Queue is full.")


def test_a_rule_needs_a_pattern() -> None:
    with pytest.raises(ValidationError, match="at least 1 character"):
        Rule(pattern="", kind="quota")


@pytest.mark.parametrize("kind", FAILURE_KINDS)
def test_every_kind_can_have_a_policy(kind: str) -> None:
    assert Settings.model_validate({"fallback": {"policy": {kind: "ignore"}}}).fallback.policy == {
        kind: "ignore"
    }
    assert re.fullmatch(r"[a-z_]+", kind)
