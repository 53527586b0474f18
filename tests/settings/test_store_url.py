"""Addresses of servers: what is one, and that a password never shows."""

import json

import pytest

from fallback_plugin.settings import HealthSettings
from fallback_plugin.settings.explain import explained
from fallback_plugin.settings.store_url import store_url
from tests.settings.conftest import Machine


@pytest.mark.parametrize(
    ("text", "shown", "secret"),
    [
        ("redis://host", "redis://host:6379/0", "redis://host/0"),
        ("redis://host:7/3", "redis://host:7/3", "redis://host:7/3"),
        (" redis://u:p%40ss@host/1 ", "redis://host:6379/1", "redis://u:p%40ss@host/1"),
        ("rediss://:pw@[::1]:7", "rediss://[::1]:7/0", "rediss://:pw@[::1]:7/0"),
        ("valkey://:pw@host", "valkey://host:6379/0", "redis://:pw@host/0"),
        ("valkeys://host", "valkeys://host:6379/0", "rediss://host/0"),
        ("unix:///run/r.sock", "unix:///run/r.sock?db=0", "unix:///run/r.sock"),
        ("unix://u:pw@/run/r.sock?db=2", "unix:///run/r.sock?db=2", "unix://u:pw@/run/r.sock?db=2"),
        ("redis://host?password=pw", "redis://host:6379/0", "redis://host/0?password=pw"),
    ],
)
def test_an_address_is_shown_without_what_is_secret(text: str, shown: str, secret: str) -> None:
    url = store_url(text)

    assert (str(url), url.secret) == (shown, secret)
    assert "pw" not in repr(url)


@pytest.mark.parametrize(
    "value",
    [
        "",
        "host:6379",
        "http://u:hunter2@host",
        "redis://",
        "redis://:hunter2@",
        "redis://u:hunter2@host:0",
        "redis://u:hunter2@host:99999",
        "redis://u:hunter2@host:port",
        "redis://u:hunter2@host/name",
        "redis://u:hunter2@host/²",
        "redis://[hunter2",
        "unix://hunter2",
        "unix://",
        "unix:///hunter2?db=x",
        6379,
        ["redis://u:hunter2@host"],
    ],
)
def test_anything_else_is_refused_without_being_repeated(value: object) -> None:
    with pytest.raises(ValueError, match="write redis://") as refused:
        store_url(value)

    assert "hunter2" not in str(refused.value)


def test_a_wrong_address_is_said_with_its_place_and_without_the_password(machine: Machine) -> None:
    machine.write_user('[health]\nurl = "http://u:hunter2@host"\nurl_env = "redis://u:hunter2@host"\n')

    one, two = machine.complaints()

    assert one.startswith(
        "user/fallback.toml:2:1: health.url: the address of a Redis server begins with redis://"
    )
    assert "hunter2" not in one
    assert two.startswith("user/fallback.toml:3:1: health.url_env: this is not the name of an environment")
    assert "hunter2" not in two


def test_settings_show_no_password(machine: Machine) -> None:
    machine.write_user('[health]\nurl = "redis://u:hunter2@host"\n')
    loaded = machine.load()

    told = {one.key: one.value for one in explained(loaded)}

    assert told["health.url"] == "redis://host:6379/0"
    assert "hunter2" not in json.dumps(told)
    assert "hunter2" not in repr(loaded.settings)
    assert loaded.settings.health.url is not None
    assert "hunter2" in loaded.settings.health.url.secret


@pytest.mark.parametrize("key", ["url", "url_env"])
def test_an_address_in_a_projects_file_does_not_count(machine: Machine, key: str) -> None:
    machine.write_project(f'[health]\n{key} = "redis://u:hunter2@host"\n')

    loaded = machine.load()

    assert loaded.settings.health == HealthSettings()
    (warning,) = loaded.warnings
    assert f"health.{key} is ignored in a project's file" in warning
    assert "hunter2" not in warning


def test_the_environment_may_hold_the_address(machine: Machine) -> None:
    machine.environ["FALLBACK_PLUGIN__HEALTH__URL"] = "redis://host"

    assert str(machine.load().settings.health.url) == "redis://host:6379/0"
