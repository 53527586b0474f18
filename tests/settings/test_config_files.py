"""The files in config/: complete, loadable, and equal to what the models say."""

from collections.abc import Iterator
from pathlib import Path
from typing import Final, get_args

import pytest
import tomli
from pydantic import BaseModel

from fallback_plugin.settings import FAILURE_KINDS, Settings
from fallback_plugin.settings.schema import schema_text
from tests.settings.conftest import Machine

ROOT: Final = Path(__file__).parents[2]
CONFIG: Final = ROOT / "config"
EXAMPLE: Final = (CONFIG / "fallback.example.toml").read_text()


def test_the_schema_is_the_one_of_the_models() -> None:
    assert (CONFIG / "fallback.schema.json").read_text() == schema_text(), (
        "run: fallback-plugin config schema > config/fallback.schema.json"
    )


def test_the_example_names_its_schema() -> None:
    assert EXAMPLE.splitlines()[0] == "#:schema ./fallback.schema.json"


def test_the_example_loads_as_a_users_file(machine: Machine) -> None:
    machine.write_user(EXAMPLE)
    loaded = machine.load()
    assert loaded.warnings == ()
    assert len(loaded.settings.fallback.fallback_models) == 3


def _settings_of(model: type[BaseModel], path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Yield each setting; a name, a kind or a list place between tables is ``*``."""
    for name, field in model.model_fields.items():
        annotation = field.annotation
        if isinstance(annotation, type) and issubclass(annotation, BaseModel):
            yield from _settings_of(annotation, (*path, name))
            continue
        tables = [part for part in get_args(annotation) if _is_table(part)]
        if tables:
            yield from _settings_of(tables[0], (*path, name, "*"))
        else:
            yield (*path, name)


def _is_table(annotation: object) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, BaseModel)


def _present(value: object, path: tuple[str, ...]) -> bool:
    if not path:
        return True
    if path[0] == "*":
        items = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
        return any(_present(item, path[1:]) for item in items)
    return isinstance(value, dict) and path[0] in value and _present(value[path[0]], path[1:])


@pytest.mark.parametrize("path", list(_settings_of(Settings)), ids=".".join)
def test_every_setting_stands_in_the_example(path: tuple[str, ...]) -> None:
    assert _present(tomli.loads(EXAMPLE), path)


@pytest.mark.parametrize("path", list(_settings_of(Settings)), ids=".".join)
def test_every_setting_is_documented(path: tuple[str, ...]) -> None:
    assert f"`{path[-1]}`" in (ROOT / "docs" / "configuration.md").read_text()


@pytest.mark.parametrize("kind", FAILURE_KINDS)
def test_every_kind_of_failure_stands_in_the_example_and_the_documentation(kind: str) -> None:
    assert kind in EXAMPLE
    assert f"`{kind}`" in (ROOT / "docs" / "configuration.md").read_text()


def test_the_defaults_in_the_example_are_those_of_the_models() -> None:
    """Fallback's plain values are written with their default, so that a copied file changes nothing."""
    written = Settings.model_validate(tomli.loads(EXAMPLE)).fallback
    plain = (
        "enabled",
        "max_attempts",
        "cooldown",
        "first_token_timeout",
        "stall_timeout",
        "notify",
        "on_foreign_abort",
    )
    assert {name: getattr(written, name) for name in plain} == {
        name: getattr(Settings().fallback, name) for name in plain
    }


def test_the_starting_file_loads_as_it_is_and_changes_nothing(machine: Machine) -> None:
    machine.write_user((CONFIG / "starter.toml").read_text())
    loaded = machine.load()
    assert loaded.settings == Settings()
    assert loaded.warnings == ()


def test_the_starting_file_loads_with_its_lines_taken_in(machine: Machine) -> None:
    lines = (CONFIG / "starter.toml").read_text().splitlines()
    samples = [
        line.removeprefix("# ")
        for line in lines
        if line.startswith(("# fallback", "#   ", "# ]", "# [", "# first"))
    ]
    machine.write_user("\n".join(["[fallback]", *samples]))
    assert len(machine.load().settings.fallback.fallback_models) == 2
