"""The store that the settings name."""

import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from fallback_plugin.health import SqliteHealth
from fallback_plugin.health.opening import open_health
from fallback_plugin.health.redis import RedisHealth
from fallback_plugin.settings import HealthSettings

ROOT: Final = Path(__file__).parents[2]
OPEN_A_FILE: Final = """
import sys
from pathlib import Path
from fallback_plugin.health.opening import open_health
from fallback_plugin.settings import HealthSettings

open_health(HealthSettings(), {"HOME": sys.argv[1]}, on_trouble=sys.exit).view(0)
print(*sys.modules)
"""


def test_without_an_address_it_is_the_file_and_the_library_is_not_imported(tmp_path: Path) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", OPEN_A_FILE, tmp_path], cwd=ROOT, check=True, capture_output=True, text=True
    )

    assert "fallback_plugin.health.sqlite" in ran.stdout.split()
    assert not {"redis", "fallback_plugin.health.redis"} & set(ran.stdout.split())
    assert (tmp_path / ".local" / "state" / "fallback-plugin" / "health.sqlite3").exists()


@pytest.mark.parametrize(
    "settings",
    [{"url": "redis://:hunter2@server"}, {"url_env": "STORE"}, {"url": "redis://other", "url_env": "STORE"}],
)
def test_with_an_address_it_is_the_server_with_the_file_beside(
    tmp_path: Path, settings: dict[str, str]
) -> None:
    store = open_health(
        HealthSettings.model_validate({"file": tmp_path / "file", **settings}),
        {"STORE": "redis://:hunter2@server"},
        on_trouble=pytest.fail,
    )

    assert isinstance(store, RedisHealth)
    assert isinstance(store._local, SqliteHealth)
    assert store._server == "redis://server:6379/0"
    assert store._thread is None


@pytest.mark.parametrize(
    ("value", "problem"),
    [(None, "it is not set"), ("", "it is not set"), ("http://:hunter2@server", "begins with redis://")],
)
def test_a_variable_that_holds_no_address_is_said_and_the_file_is_used(
    tmp_path: Path, value: str | None, problem: str
) -> None:
    said: list[str] = []

    store = open_health(
        HealthSettings(file=tmp_path / "file", url_env="STORE"),
        {} if value is None else {"STORE": value},
        on_trouble=said.append,
    )

    assert isinstance(store, SqliteHealth)
    (text,) = said
    assert text.startswith("the variable STORE of health.url_env: ")
    assert problem in text
    assert "hunter2" not in text
