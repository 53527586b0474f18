import json
import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from fallback_plugin.cli.main import command_line
from fallback_plugin.health import SqliteHealth
from fallback_plugin.health.scope import closing_key
from fallback_plugin.model_ref import ModelRef

MODEL = ModelRef("openrouter", "anthropic/claude-opus-4-5", "high")
OTHER = ModelRef("openai", "gpt-5.1")


@pytest.fixture
def file(home: Path) -> Path:
    return home / ".local" / "state" / "fallback-plugin" / "health.sqlite3"


@pytest.fixture
def store(file: Path) -> Iterator[SqliteHealth]:
    health = SqliteHealth(file, on_trouble=pytest.fail)
    yield health
    health.shut()


def run(*arguments: str) -> Result:
    return CliRunner().invoke(command_line, ["health", *arguments])


def close_all_scopes(store: SqliteHealth) -> float:
    """Close the keys of one model for an hour and one of another's; return when."""
    now = time.time()
    for scope in ("model", "upstream", "account", "provider"):
        store.close(MODEL, scope, now + 3600, reason="quota", now=now)
    store.close(OTHER, "model", now + 60, reason="overload", now=now)
    return now


def test_nothing_is_closed_at_the_start() -> None:
    assert run().stdout == "nothing is closed\n"
    assert json.loads(run("--json").stdout) == []


def test_each_closed_key_is_a_line(store: SqliteHealth) -> None:
    close_all_scopes(store)

    lines = run().stdout.splitlines()

    assert lines[0].split() == ["what", "reason", "state", "left", "until", "failures", "probe"]
    assert [re.split(r"\s{2,}", line)[:3] for line in lines[1:]] == [
        ["openai/gpt-5.1", "overload", "closed"],
        ["openrouter/* (account)", "quota", "closed"],
        ["openrouter/anthropic/claude-opus-4-5:high", "quota", "closed"],
        ["openrouter/* (provider)", "quota", "closed"],
        ["openrouter/anthropic/* (upstream)", "quota", "closed"],
    ]
    assert "59min" in lines[2] or "1h 00min" in lines[2]


def test_as_json_each_holds_everything_that_is_known(store: SqliteHealth) -> None:
    now = time.time()
    store.close(OTHER, "account", now - 1, reason="quota", now=now - 61)
    store.begin_probe(closing_key(OTHER, "account"), "session", now, ttl_s=120)

    (entry,) = json.loads(run("--json").stdout)

    assert entry == {
        "scope": "account",
        "provider": "openai",
        "name": "",
        "variant": None,
        "closes": "openai/* (account)",
        "state": "half-open",
        "reason": "quota",
        "until": now - 1,
        "left_s": 0.0,
        "failures": 1,
        "closed_at": now - 61,
        "probe": {"holder": "session", "until": now + 120},
    }
    assert "half-open" in run().stdout
    assert "by session for" in run().stdout


@pytest.mark.parametrize(
    ("arguments", "cleared"),
    [
        ([str(MODEL)], {"model", "upstream", "account", "provider"}),
        (["openrouter/anthropic/claude-opus-4-5"], {"upstream", "account", "provider"}),
        (["openrouter/x"], {"account", "provider"}),
        (["openrouter"], {"model", "upstream", "account", "provider"}),
    ],
)
def test_clear_forgets_what_closes_a_model_or_belongs_to_a_provider(
    store: SqliteHealth, arguments: list[str], cleared: set[str]
) -> None:
    now = close_all_scopes(store)

    result = run("clear", *arguments)

    left = {key for key, _ in store.view(now).entries()}
    assert left == {closing_key(OTHER, "model")} | {
        closing_key(MODEL, scope)
        for scope in ("model", "upstream", "account", "provider")
        if scope not in cleared
    }
    assert result.exit_code == 0
    assert len(result.stdout.splitlines()) == len(cleared)
    assert all(line.startswith("cleared openrouter/") for line in result.stdout.splitlines())


def test_clear_all_forgets_everything(store: SqliteHealth) -> None:
    now = close_all_scopes(store)

    assert run("clear", "--all").exit_code == 0

    assert store.view(now).entries() == ()


def test_a_variant_of_any_name_can_be_cleared(store: SqliteHealth) -> None:
    now = time.time()
    store.close(ModelRef("p", "m", "thinking"), "model", now + 60, reason="quota", now=now)

    assert run("clear", "p/m:thinking").stdout == "cleared p/m:thinking\n"


@pytest.mark.parametrize("name", ["p/wrong", "wrong"])
def test_a_name_that_closes_nothing_is_an_error_which_lists_what_is_closed(
    name: str, store: SqliteHealth
) -> None:
    now = time.time()
    store.close(ModelRef("p", "m"), "model", now + 60, reason="quota", now=now)

    result = run("clear", name)

    assert (result.exit_code, result.stdout) == (2, "")
    assert f'nothing is closed under "{name}"' in result.stderr
    assert "  fallback-plugin health clear p/m\n" in result.stderr
    assert store.view(now).closed_until(ModelRef("p", "m")) > now


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--all"], "nothing to clear: nothing is closed\n"),
        (["p/m"], 'nothing to clear: nothing is closed under "p/m"\n'),
        (["p"], 'nothing to clear: nothing is closed under "p"\n'),
    ],
)
def test_nothing_to_clear_is_said_and_no_error(arguments: list[str], text: str) -> None:
    result = run("clear", *arguments)

    assert (result.exit_code, result.stdout) == (0, text)


def test_a_model_and_all_is_one_too_many() -> None:
    result = run("clear", "p/m", "--all")

    assert result.exit_code == 2
    assert "name a model or a provider, or everything with --all, not both" in result.stderr


def test_P5_clear_alone_is_a_usage_error_that_says_what_to_write(store: SqliteHealth) -> None:
    close_all_scopes(store)

    result = run("clear")

    assert (result.exit_code, result.stdout) == (2, "")
    error, said, *commands = result.stderr.partition("Error: ")[2].splitlines()
    assert error == "name a model or a provider, or everything with --all"
    assert said == "what is closed now is cleared by"
    assert [command.removeprefix("  fallback-plugin health clear ") for command in commands] == [
        "openai/gpt-5.1",
        "openrouter",
        "openrouter/anthropic/claude-opus-4-5:high",
        "--all",
    ]
    assert len(store.view(time.time()).entries()) == 5


@pytest.mark.parametrize("arguments", [[], [""]], ids=["no name", "empty name"])
def test_P5_clear_alone_is_a_usage_error_also_where_nothing_is_closed(arguments: list[str]) -> None:
    result = run("clear", *arguments)

    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.endswith(
        "Error: name a model or a provider, or everything with --all\nnothing is closed now\n"
    )


def test_P5_clear_alone_with_an_unusable_file_says_what_is_wrong_with_it(file: Path) -> None:
    file.mkdir(parents=True)

    result = run("clear")

    assert result.exit_code == 1
    assert result.stderr.startswith(f"error: {file}: it cannot be opened")
    assert "nothing is closed" not in result.stderr


def test_what_is_no_model_is_an_error() -> None:
    result = run("clear", "/x")

    assert result.exit_code == 1
    assert result.stderr.startswith("error: '/x' is not a model")


def test_a_name_cannot_give_orders_to_the_terminal(store: SqliteHealth) -> None:
    now = time.time()
    store.close(ModelRef("p", "\x1b[2Jm\n"), "model", now + 60, reason="quota", now=now)

    lines = run().stdout.splitlines()

    assert len(lines) == 2
    assert lines[1].startswith(r"p/\x1b[2Jm\n ")


def test_a_file_that_cannot_be_used_is_an_error_with_what_to_do(file: Path) -> None:
    file.mkdir(parents=True)

    result = run()

    assert result.exit_code == 1
    assert result.stderr.startswith(f"error: {file}: it cannot be opened; make its folder exist")


def test_a_broken_file_counts_as_what_it_held_before(home: Path) -> None:
    file = home / "fallback.toml"
    file.write_text('[health]\nfile = "elsewhere.sqlite3"\n')
    assert run().exit_code == 0
    file.write_text("[health")

    result = run()

    assert result.exit_code == 0
    assert "fallback.toml:1:" in result.stderr
    assert "Until that is mended, the last good settings stay." in result.stderr


def test_a_broken_file_of_which_nothing_is_known_is_an_error(home: Path) -> None:
    (home / "fallback.toml").write_text("[health")

    result = run()

    assert (result.exit_code, result.stdout) == (1, "")
    assert "fallback.toml:1:" in result.stderr


def test_the_settings_name_the_store(home: Path) -> None:
    (home / "mine.toml").write_text('[health]\nfile = "elsewhere.sqlite3"\n')

    assert run("--config", str(home / "mine.toml")).exit_code == 0
    assert run("--config", str(home / "mine.toml"), "clear", "--all").exit_code == 0

    assert list(home.rglob("elsewhere.sqlite3")) != []


def test_a_server_that_cannot_be_reached_is_an_error_and_what_this_machine_knows_is_shown(
    home: Path, store: SqliteHealth, monkeypatch: pytest.MonkeyPatch
) -> None:
    close_all_scopes(store)
    monkeypatch.setenv("STORE", f"unix://user:hunter2@{home}/no.sock")
    (home / "mine.toml").write_text('[health]\nurl_env = "STORE"\n')

    result = run("--config", str(home / "mine.toml"))

    assert result.exit_code == 1
    assert "openai/gpt-5.1" in result.stdout
    assert result.stderr.startswith(f"error: unix://{home}/no.sock?db=0 cannot be used: ")
    assert "hunter2" not in result.output
