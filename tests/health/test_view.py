"""What a decision sees: which models are closed, which wait for a probe."""

from typing import Final

from fallback_plugin.health import HealthView, MemoryHealth
from fallback_plugin.health.closure import NEVER, Closure, Probe
from fallback_plugin.health.scope import Key
from fallback_plugin.model_ref import ModelRef

NOW: Final = 1_800_000_000.0
CLAUDE: Final = ModelRef("openrouter", "anthropic/claude-opus-4-5", "high")
MODEL_KEY: Final = Key("model", "openrouter", "anthropic/claude-opus-4-5", "high")
ACCOUNT_KEY: Final = Key("account", "openrouter")
PROVIDER_KEY: Final = Key("provider", "openrouter")


def record(until: float, probe: Probe | None = None) -> Closure:
    return Closure(until, "quota", 1, NOW, probe)


def test_without_records_everything_is_open() -> None:
    assert HealthView(NOW).closed_until(CLAUDE) == NEVER
    assert HealthView(NOW).half_open(CLAUDE) is None
    assert HealthView(NOW).entries() == ()


def test_a_model_is_closed_by_the_longest_of_its_keys() -> None:
    view = HealthView(NOW, {MODEL_KEY: record(NOW + 60), ACCOUNT_KEY: record(NOW + 3600)})

    assert view.closed_until(CLAUDE) == NOW + 3600
    assert view.closed_until(ModelRef("openrouter", "x")) == NOW + 3600
    assert view.closed_until(ModelRef("openai", "x")) == NEVER


def test_the_widest_half_open_key_is_the_one_to_probe() -> None:
    view = HealthView(
        NOW, {key: record(NOW - 1) for key in (MODEL_KEY, ACCOUNT_KEY)} | {PROVIDER_KEY: record(NOW + 1)}
    )

    assert view.half_open(CLAUDE) == ACCOUNT_KEY
    assert view.closed_until(CLAUDE) == NOW + 1


def test_while_a_probe_runs_the_model_is_closed_to_all_others_until_its_end() -> None:
    view = HealthView(NOW, {ACCOUNT_KEY: record(NOW - 1, Probe("a", NOW + 30))})

    assert view.closed_until(CLAUDE) == NOW + 30
    assert view.closed_until(CLAUDE, "b") == NOW + 30
    assert view.closed_until(CLAUDE, "a") == NEVER


def test_entries_are_what_is_closed_or_half_open_and_no_older() -> None:
    view = HealthView(
        NOW,
        {
            PROVIDER_KEY: record(NOW - 1),
            Key("model", "a", "m"): record(NOW + 60),
            Key("model", "b", "m"): record(NOW - 1_000_000),
        },
    )

    assert [key for key, _ in view.entries()] == [Key("model", "a", "m"), PROVIDER_KEY]


def test_complaint_84_a_closed_model_closes_no_sibling_and_no_other_variant() -> None:
    health = MemoryHealth()

    health.close(ModelRef("google", "gemini-3-pro", "high"), "model", NOW + 60, reason="quota", now=NOW)

    view = health.view(NOW)
    assert view.closed_until(ModelRef("google", "gemini-3-pro", "high")) == NOW + 60
    assert view.closed_until(ModelRef("google", "gemini-3-pro")) == NEVER
    assert view.closed_until(ModelRef("google", "gemini-3-flash")) == NEVER


def test_complaint_87_a_failure_of_the_fallback_is_booked_on_the_fallback() -> None:
    health = MemoryHealth()

    health.close(ModelRef("zai", "glm-4.6"), "account", NOW + 60, reason="billing", now=NOW)

    assert health.view(NOW).closed_until(ModelRef("anthropic", "claude-opus-4-5")) == NEVER


def test_complaint_88_a_limit_of_the_provider_closes_every_entry_of_it() -> None:
    health = MemoryHealth()

    health.close(ModelRef("openai", "gpt-5.1"), "provider", NOW + 60, reason="quota", now=NOW)

    view = health.view(NOW)
    assert {view.closed_until(ModelRef("openai", name)) for name in ("gpt-5.1", "gpt-5", "o3")} == {NOW + 60}


def test_complaint_89_any_number_of_unknown_models_never_closes_a_third_of_the_provider() -> None:
    health = MemoryHealth()

    for number in range(1000):
        model = ModelRef("openai", f"unknown-{number}")
        health.close(model, "model", NOW + 60, reason="model_not_found", now=NOW)

    assert health.view(NOW).closed_until(ModelRef("openai", "gpt-5.1")) == NEVER
