"""The files in config/: complete, loadable, and equal to what the models say."""

import re
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
TAKEN_IN: Final = re.sub(r"^#(?=[a-z[])", "", EXAMPLE, flags=re.MULTILINE)
"""The example with all that stands in it behind a ``#``."""


def test_the_schema_is_the_one_of_the_models() -> None:
    assert (CONFIG / "fallback.schema.json").read_text() == schema_text(), (
        "run: fallback-plugin config schema > config/fallback.schema.json"
    )


def test_the_example_names_its_schema() -> None:
    assert EXAMPLE.splitlines()[0] == "#:schema ./fallback.schema.json"


def test_the_example_changes_nothing_as_a_users_file(machine: Machine) -> None:
    machine.write_user(EXAMPLE)
    loaded = machine.load()
    assert loaded.warnings == ()
    assert loaded.settings == Settings()
    assert {origin.layer for origin in loaded.origins.values()} == {"default", "user file"}


def test_the_example_loads_with_its_lines_taken_in(machine: Machine) -> None:
    machine.write_user(TAKEN_IN)
    loaded = machine.load()
    assert loaded.warnings == ()
    assert loaded.settings != Settings()
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


EMPTY: Final[tuple[object, ...]] = (None, (), {})


def _default(path: tuple[str, ...]) -> object:
    value: object = Settings()
    for part in path:
        value = getattr(value, part)
    return value


@pytest.mark.parametrize("path", list(_settings_of(Settings)), ids=".".join)
def test_every_setting_stands_in_the_example(path: tuple[str, ...]) -> None:
    assert _present(tomli.loads(TAKEN_IN), path)


@pytest.mark.parametrize("path", list(_settings_of(Settings)), ids=".".join)
def test_every_setting_is_documented(path: tuple[str, ...]) -> None:
    assert f"`{path[-1]}`" in (ROOT / "docs" / "configuration.md").read_text()


@pytest.mark.parametrize("kind", FAILURE_KINDS)
def test_every_kind_of_failure_stands_in_the_example_and_the_documentation(kind: str) -> None:
    assert kind in EXAMPLE
    assert f"`{kind}`" in (ROOT / "docs" / "configuration.md").read_text()


@pytest.mark.parametrize(
    "path",
    [path for path in _settings_of(Settings) if "*" not in path and _default(path) not in EMPTY],
    ids=".".join,
)
def test_every_default_stands_in_the_example(path: tuple[str, ...]) -> None:
    """As a line that is in force, or in the words before one that is not."""
    if _present(tomli.loads(EXAMPLE), path):
        return
    lines = EXAMPLE.splitlines()
    place = next(number for number, line in enumerate(lines) if line.startswith(f"#{path[-1]} = "))
    assert f'Default: "{_default(path)}"' in lines[place - 1] + lines[place - 2]


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
