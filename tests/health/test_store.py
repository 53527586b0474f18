"""What holds for every store."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from fallback_plugin.health import HealthStore, MemoryHealth, SqliteHealth
from fallback_plugin.model_ref import ModelRef

MODEL = ModelRef("openai", "gpt-5.1")
OTHER = ModelRef("anthropic", "claude-opus-4-5")
NOW = 1_800_000_000.0


@pytest.fixture(params=["memory", "sqlite"])
def health(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[HealthStore]:
    troubles: list[str] = []
    store: HealthStore = (
        MemoryHealth()
        if request.param == "memory"
        else SqliteHealth(tmp_path / "health.sqlite3", on_trouble=troubles.append)
    )
    yield store
    store.shut()
    assert troubles == []


def test_nothing_cools_at_the_start(health: HealthStore) -> None:
    assert health.cooling(NOW) == {}


def test_a_closed_model_cools_until_its_time(health: HealthStore) -> None:
    health.close_model(MODEL, NOW + 60, reason="rate_limit", now=NOW)

    assert health.cooling(NOW) == {MODEL: NOW + 60}
    assert health.cooling(NOW + 59.9) == {MODEL: NOW + 60}
    assert health.cooling(NOW + 60) == {}


def test_each_model_cools_for_itself(health: HealthStore) -> None:
    health.close_model(MODEL, NOW + 60, reason="rate_limit", now=NOW)
    health.close_model(OTHER, NOW + 120, reason="quota", now=NOW)

    assert health.cooling(NOW + 60) == {OTHER: NOW + 120}


def test_a_time_is_never_shortened(health: HealthStore) -> None:
    health.close_model(MODEL, NOW + 3600, reason="quota", now=NOW)
    health.close_model(MODEL, NOW + 60, reason="rate_limit", now=NOW + 1)

    assert health.cooling(NOW + 1) == {MODEL: NOW + 3600}


def test_a_time_is_lengthened(health: HealthStore) -> None:
    health.close_model(MODEL, NOW + 60, reason="rate_limit", now=NOW)
    health.close_model(MODEL, NOW + 3600, reason="quota", now=NOW + 1)

    assert health.cooling(NOW + 60) == {MODEL: NOW + 3600}


def test_a_model_whose_time_ran_out_can_be_closed_again(health: HealthStore) -> None:
    health.close_model(MODEL, NOW + 60, reason="rate_limit", now=NOW)
    health.close_model(MODEL, NOW + 190, reason="rate_limit", now=NOW + 130)

    assert health.cooling(NOW + 130) == {MODEL: NOW + 190}


def test_a_time_that_is_over_closes_nothing(health: HealthStore) -> None:
    health.close_model(MODEL, NOW, reason="rate_limit", now=NOW)

    assert health.cooling(NOW - 1) == {}


def test_an_opened_model_cools_no_more_and_can_be_closed_for_shorter(health: HealthStore) -> None:
    health.close_model(MODEL, NOW + 3600, reason="quota", now=NOW)

    health.open_model(MODEL)
    assert health.cooling(NOW) == {}

    health.close_model(MODEL, NOW + 60, reason="rate_limit", now=NOW)
    assert health.cooling(NOW) == {MODEL: NOW + 60}


def test_opening_a_model_that_is_open_does_nothing(health: HealthStore) -> None:
    health.open_model(MODEL)

    assert health.cooling(NOW) == {}


def test_variants_are_models_of_their_own(health: HealthStore) -> None:
    high, thinking = ModelRef("openai", "gpt-5.1", "high"), ModelRef("openai", "gpt-5.1", "thinking")
    health.close_model(high, NOW + 60, reason="overload", now=NOW)
    health.close_model(MODEL, NOW + 30, reason="overload", now=NOW)

    health.open_model(thinking)

    assert health.cooling(NOW) == {high: NOW + 60, MODEL: NOW + 30}


def test_a_colon_or_slash_in_a_name_does_not_mix_models_up(health: HealthStore) -> None:
    health.close_model(ModelRef("ollama", "qwen3:high"), NOW + 60, reason="overload", now=NOW)
    health.close_model(ModelRef("ollama/qwen3", "high"), NOW + 60, reason="overload", now=NOW)

    assert ModelRef("ollama", "qwen3", "high") not in health.cooling(NOW)
    assert len(health.cooling(NOW)) == 2


def test_of_two_holders_one_gets_the_lease(health: HealthStore) -> None:
    assert health.claim("failure", "a", NOW, ttl_s=60)
    assert not health.claim("failure", "b", NOW, ttl_s=60)


def test_who_has_the_lease_gets_it_again(health: HealthStore) -> None:
    health.claim("failure", "a", NOW, ttl_s=60)

    assert health.claim("failure", "a", NOW + 1, ttl_s=60)


def test_leases_of_other_keys_do_not_matter(health: HealthStore) -> None:
    health.claim("failure", "a", NOW, ttl_s=60)

    assert health.claim("other failure", "b", NOW, ttl_s=60)


def test_a_lease_runs_out(health: HealthStore) -> None:
    health.claim("failure", "a", NOW, ttl_s=60)

    assert not health.claim("failure", "b", NOW + 59.9, ttl_s=60)
    assert health.claim("failure", "b", NOW + 60, ttl_s=60)
    assert not health.claim("failure", "a", NOW + 60, ttl_s=60)


def test_claiming_again_renews_the_lease(health: HealthStore) -> None:
    health.claim("failure", "a", NOW, ttl_s=60)
    health.claim("failure", "a", NOW + 50, ttl_s=60)

    assert not health.claim("failure", "b", NOW + 109, ttl_s=60)
    assert health.claim("failure", "b", NOW + 110, ttl_s=60)


def test_a_refused_claim_changes_nothing(health: HealthStore) -> None:
    health.claim("failure", "a", NOW, ttl_s=60)
    health.claim("failure", "b", NOW + 50, ttl_s=3600)

    assert health.claim("failure", "c", NOW + 60, ttl_s=60)


@pytest.mark.parametrize("text", ["", "a\0b", "\ud800", "é…💥", "'; DROP TABLE leases; --", "x" * 100_000])
def test_any_text_can_be_a_key_a_holder_or_a_name(health: HealthStore, text: str) -> None:
    assert health.claim(text, "a", NOW, ttl_s=60)
    assert not health.claim(text, text, NOW, ttl_s=60)
    assert health.claim("failure", text, NOW, ttl_s=60)
    health.close_model(ModelRef(text, text, text), NOW + 60, reason=text, now=NOW)
    assert len(health.cooling(NOW)) == 1


def test_shutting_twice_is_harmless(health: HealthStore) -> None:
    health.claim("failure", "a", NOW, ttl_s=60)

    health.shut()
    health.shut()

    assert not health.claim("failure", "b", NOW, ttl_s=60)
