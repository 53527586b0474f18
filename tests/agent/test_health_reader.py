"""Which models are left alone, read where the fallback plugin keeps it."""

import json
from pathlib import Path

import pytest

from fallback_plugin.agent.health_reader import HealthReader, model_health
from fallback_plugin.health import MemoryHealth, SqliteHealth
from fallback_plugin.model_ref import ModelRef
from fallback_plugin.settings import Settings

NOW = 1_000_000.0
PRIMARY = ModelRef("openai", "gpt")
SECOND = ModelRef("spare", "second")


def settings(folder: Path) -> Settings:
    return Settings.model_validate(
        {
            "fallback": {"fallback_models": ["spare/second"]},
            "agents": {"plan": {"fallback_models": ["spare/third"]}},
            "health": {"file": str(folder / "health.sqlite3")},
        }
    )


@pytest.mark.parametrize(
    ("at", "state"), [(NOW, "closed"), (NOW + 60, "probe"), (NOW + 60 + 25 * 3600, "open")]
)
def test_a_model_is_closed_then_probed_then_open_again(at: float, state: str) -> None:
    health = MemoryHealth()
    health.close(SECOND, "model", NOW + 60, reason="rate_limit", now=NOW, base_s=1)

    found = model_health(health.view(at), SECOND)

    assert found.state == state


def test_of_two_closures_the_longer_one_is_told() -> None:
    health = MemoryHealth()
    health.close(SECOND, "model", NOW + 60, reason="rate_limit", now=NOW, base_s=1)
    health.close(SECOND, "account", NOW + 600, reason="quota", now=NOW, base_s=1)

    found = model_health(health.view(NOW), SECOND)

    assert found.key is not None
    assert found.record is not None
    assert (found.key.scope, found.record.reason, found.record.until) == ("account", "quota", NOW + 600)


def test_the_hosts_own_model_stands_first_in_every_chain(tmp_path: Path) -> None:
    reader = HealthReader({})

    chains = reader.chains(settings(tmp_path), PRIMARY, NOW)

    assert [(chain.agent, [str(each.model) for each in chain.models]) for chain in chains] == [
        (None, ["openai/gpt", "spare/second"]),
        ("plan", ["openai/gpt", "spare/third"]),
    ]
    reader.shut()


def test_what_another_process_closes_is_seen(tmp_path: Path) -> None:
    reader = HealthReader({})
    reader.chains(settings(tmp_path), None, NOW)
    other = SqliteHealth(tmp_path / "health.sqlite3", on_trouble=pytest.fail)

    other.close(SECOND, "model", NOW + 60, reason="overload", now=NOW, base_s=1)

    ((second,), _) = (chain.models for chain in reader.chains(settings(tmp_path), None, NOW))
    assert second.state == "closed"
    reader.shut()
    other.shut()


def test_switches_come_newest_first_and_nothing_else_does(tmp_path: Path) -> None:
    decisions = ["switch", "switched", "not inline", "retry", "exhausted"]
    lines = [
        json.dumps({"at": NOW + at, "session": "ses_1", "decision": decision, "reason": ""})
        for at, decision in enumerate(decisions)
    ]
    (tmp_path / "decisions.jsonl").write_text("\n".join(lines))

    found = HealthReader({}).switches(settings(tmp_path), 2)

    assert [each["decision"] for each in found] == ["exhausted", "retry"]
