"""What holds for every store."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from fakeredis import FakeServer

from fallback_plugin.health import HealthStore, MemoryHealth, SqliteHealth
from fallback_plugin.health.closure import NEVER, Closure
from fallback_plugin.health.scope import closing_key, keys_of
from fallback_plugin.model_ref import ModelRef
from tests.health.cooling import cooling
from tests.health.machines import at_imitation

MODEL = ModelRef("openai", "gpt-5.1")
OTHER = ModelRef("anthropic", "claude-opus-4-5")
NOW = 1_800_000_000.0


STORES = ("memory", "sqlite", "redis", "redis that is down")


@pytest.fixture(params=STORES)
def health(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[HealthStore]:
    troubles: list[str] = []
    sqlite = SqliteHealth(tmp_path / "health.sqlite3", on_trouble=troubles.append, any_thread=True)
    store: HealthStore
    match request.param:
        case "memory":
            store = MemoryHealth()
        case "sqlite":
            store = sqlite
        case name:
            server = FakeServer()
            server.connected = name == "redis"
            store = at_imitation(server, sqlite).health
            store.settle(5)
            assert store._online is server.connected
    yield store
    store.shut()
    assert troubles == []


def test_nothing_cools_at_the_start(health: HealthStore) -> None:
    assert cooling(health, NOW) == {}


def test_a_closed_model_cools_until_its_time(health: HealthStore) -> None:
    health.close(MODEL, "model", NOW + 60, reason="rate_limit", now=NOW)

    assert cooling(health, NOW) == {MODEL: NOW + 60}
    assert cooling(health, NOW + 59.9) == {MODEL: NOW + 60}
    assert cooling(health, NOW + 60) == {}


def test_each_model_cools_for_itself(health: HealthStore) -> None:
    health.close(MODEL, "model", NOW + 60, reason="rate_limit", now=NOW)
    health.close(OTHER, "model", NOW + 120, reason="quota", now=NOW)

    assert cooling(health, NOW + 60) == {OTHER: NOW + 120}


def test_a_time_is_never_shortened(health: HealthStore) -> None:
    health.close(MODEL, "model", NOW + 3600, reason="quota", now=NOW)
    health.close(MODEL, "model", NOW + 60, reason="rate_limit", now=NOW + 1)

    assert cooling(health, NOW + 1) == {MODEL: NOW + 3600}


def test_a_time_is_lengthened(health: HealthStore) -> None:
    health.close(MODEL, "model", NOW + 60, reason="rate_limit", now=NOW)
    health.close(MODEL, "model", NOW + 3600, reason="quota", now=NOW + 1)

    assert cooling(health, NOW + 60) == {MODEL: NOW + 3600}


def test_a_model_whose_time_ran_out_can_be_closed_again(health: HealthStore) -> None:
    health.close(MODEL, "model", NOW + 60, reason="rate_limit", now=NOW)
    health.close(MODEL, "model", NOW + 190, reason="rate_limit", now=NOW + 130)

    assert cooling(health, NOW + 130) == {MODEL: NOW + 190}


def test_a_time_that_is_over_closes_nothing(health: HealthStore) -> None:
    health.close(MODEL, "model", NOW, reason="rate_limit", now=NOW)

    assert cooling(health, NOW - 1) == {}


def test_an_opened_model_cools_no_more_and_can_be_closed_for_shorter(health: HealthStore) -> None:
    health.close(MODEL, "model", NOW + 3600, reason="quota", now=NOW)

    health.clear(keys_of(MODEL))
    assert cooling(health, NOW) == {}

    health.close(MODEL, "model", NOW + 60, reason="rate_limit", now=NOW)
    assert cooling(health, NOW) == {MODEL: NOW + 60}


def test_opening_a_model_that_is_open_does_nothing(health: HealthStore) -> None:
    health.clear(keys_of(MODEL))

    assert cooling(health, NOW) == {}


def test_variants_are_models_of_their_own(health: HealthStore) -> None:
    high, thinking = ModelRef("openai", "gpt-5.1", "high"), ModelRef("openai", "gpt-5.1", "thinking")
    health.close(high, "model", NOW + 60, reason="overload", now=NOW)
    health.close(MODEL, "model", NOW + 30, reason="overload", now=NOW)

    health.clear(keys_of(thinking))

    assert cooling(health, NOW) == {high: NOW + 60, MODEL: NOW + 30}


def test_a_colon_or_slash_in_a_name_does_not_mix_models_up(health: HealthStore) -> None:
    health.close(ModelRef("ollama", "qwen3:high"), "model", NOW + 60, reason="overload", now=NOW)
    health.close(ModelRef("ollama/qwen3", "high"), "model", NOW + 60, reason="overload", now=NOW)

    assert ModelRef("ollama", "qwen3", "high") not in cooling(health, NOW)
    assert len(cooling(health, NOW)) == 2


def test_a_failure_closes_its_scope(health: HealthStore) -> None:
    health.close(MODEL, "account", NOW + 60, reason="quota", now=NOW)

    view = health.view(NOW)
    assert view.closed_until(ModelRef("openai", "o3", "high")) == NOW + 60
    assert view.closed_until(OTHER) == NEVER
    assert view.entries() == ((closing_key(MODEL, "account"), Closure(NOW + 60, "quota", 1, NOW)),)


def test_a_view_stays_as_it_was(health: HealthStore) -> None:
    before = health.view(NOW)

    health.close(MODEL, "model", NOW + 60, reason="quota", now=NOW)

    assert before.closed_until(MODEL) == NEVER
    assert health.view(NOW).closed_until(MODEL) == NOW + 60


def test_of_two_holders_one_may_probe_and_its_failure_doubles_the_wait(health: HealthStore) -> None:
    key = closing_key(MODEL, "provider")
    health.close(MODEL, "provider", NOW + 60, reason="server", now=NOW, base_s=60)
    assert not health.begin_probe(key, "a", NOW + 59, ttl_s=30)

    assert health.view(NOW + 60).half_open(MODEL) == key
    assert health.begin_probe(key, "a", NOW + 60, ttl_s=30)
    assert not health.begin_probe(key, "b", NOW + 61, ttl_s=30)
    assert health.view(NOW + 61).closed_until(MODEL, "b") == NOW + 90
    assert health.view(NOW + 61).closed_until(MODEL, "a") == NEVER

    health.close(MODEL, "provider", NOW + 65, reason="server", now=NOW + 65, base_s=60)
    assert health.view(NOW + 65).closed_until(MODEL, "a") == NOW + 65 + 120
    assert health.view(NOW + 65).closures[key].failures == 2


def test_a_probe_that_showed_nothing_is_for_the_next(health: HealthStore) -> None:
    key = closing_key(MODEL, "account")
    health.close(MODEL, "account", NOW + 60, reason="quota", now=NOW)
    health.begin_probe(key, "a", NOW + 60, ttl_s=30)

    health.end_probe(MODEL, "b")
    assert not health.begin_probe(key, "b", NOW + 60, ttl_s=30)

    health.end_probe(MODEL, "a")
    assert health.begin_probe(key, "b", NOW + 60, ttl_s=30)


def test_an_open_key_may_be_asked_by_all(health: HealthStore) -> None:
    assert health.begin_probe(closing_key(MODEL, "model"), "a", NOW, ttl_s=30)
    assert health.begin_probe(closing_key(MODEL, "model"), "b", NOW, ttl_s=30)


def test_an_answer_opens_everything_that_closed_its_model(health: HealthStore) -> None:
    for scope in ("model", "upstream", "account", "provider"):
        health.close(MODEL, scope, NOW + 60, reason="quota", now=NOW)
    health.close(OTHER, "account", NOW + 60, reason="quota", now=NOW)

    health.reopen(MODEL, asked_at=NOW + 30)

    assert [key for key, _ in health.view(NOW + 30).entries()] == [closing_key(OTHER, "account")]


def test_an_answer_to_a_request_from_before_the_failure_opens_nothing(health: HealthStore) -> None:
    health.close(MODEL, "account", NOW + 60, reason="quota", now=NOW)

    health.reopen(MODEL, asked_at=NOW - 5)

    assert health.view(NOW).closed_until(MODEL) == NOW + 60


def test_what_is_cleared_is_forgotten(health: HealthStore) -> None:
    health.close(MODEL, "account", NOW + 60, reason="quota", now=NOW)

    health.clear(keys_of(MODEL))

    assert health.view(NOW).entries() == ()


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

    model = ModelRef(text, text, text)
    for scope in ("model", "upstream", "account"):
        health.close(model, scope, NOW + 60, reason=text, now=NOW)
    assert health.view(NOW).closed_until(model) == NOW + 60
    assert {key for key, _ in health.view(NOW).entries()} < set(keys_of(model))

    assert health.begin_probe(closing_key(model, "account"), text, NOW + 60, ttl_s=60)
    assert not health.begin_probe(closing_key(model, "account"), "a", NOW + 60, ttl_s=60)
    assert health.view(NOW + 60).closed_until(model, text) == NEVER


def test_shutting_twice_is_harmless(health: HealthStore) -> None:
    health.claim("failure", "a", NOW, ttl_s=60)

    health.shut()
    health.shut()

    assert not health.claim("failure", "b", NOW, ttl_s=60)
