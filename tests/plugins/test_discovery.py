"""Where plugins are found."""

import importlib.metadata
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from fallback_plugin.errors import PluginLoadError
from fallback_plugin.plugins.discovery import built_in, dropped_in, installed, passed_in

DATACLASS_PLUGIN = """
from __future__ import annotations
from dataclasses import dataclass
@dataclass
class Thing:
    name: str
"""


def write(folder: Path, name: str, text: str = "") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / name
    file.write_text(text)
    return file


def test_the_flagship_is_built_in_and_not_imported_before_it_is_loaded() -> None:
    (found,) = built_in()

    assert (found.name, found.origin) == ("fallback", "built-in")


def test_files_are_found_folder_by_folder_and_by_name(tmp_path: Path) -> None:
    write(tmp_path / "one", "b.py")
    write(tmp_path / "one", "a.py")
    write(tmp_path / "two", "a.py")

    found = list(dropped_in([tmp_path / "two", tmp_path / "one"]))

    assert [plugin.name for plugin in found] == ["a", "a", "b"]
    assert found[0].origin == str(tmp_path / "two" / "a.py")


@pytest.mark.parametrize("name", ["_shared.py", ".hidden.py", "notes.txt"])
def test_other_files_are_no_plugins(tmp_path: Path, name: str) -> None:
    write(tmp_path, name)

    assert list(dropped_in([tmp_path])) == []


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    (found,) = dropped_in([tmp_path / "gone"])

    with pytest.raises(PluginLoadError, match="gone does not exist"):
        found.load()


def test_a_file_is_its_own_plugin(tmp_path: Path) -> None:
    write(tmp_path, "greeter.py", "greeting = 'hello'")

    (found,) = dropped_in([tmp_path])

    assert getattr(found.load(), "greeting", None) == "hello"


def test_an_object_named_plugin_is_the_plugin_of_its_file(tmp_path: Path) -> None:
    write(tmp_path, "greeter.py", "plugin = 'the object'")

    (found,) = dropped_in([tmp_path])

    assert found.load() == "the object"


def test_files_of_one_name_do_not_hide_each_other_or_a_module(tmp_path: Path) -> None:
    write(tmp_path / "one", "json.py", "here = 1")
    write(tmp_path / "two", "json.py", "here = 2")

    loaded = [found.load() for found in dropped_in([tmp_path / "one", tmp_path / "two"])]

    assert [getattr(module, "here", None) for module in loaded] == [1, 2]
    assert not hasattr(sys.modules["json"], "here")


def test_a_file_may_define_dataclasses_with_postponed_annotations(tmp_path: Path) -> None:
    write(tmp_path, "things.py", DATACLASS_PLUGIN)

    (found,) = dropped_in([tmp_path])

    assert hasattr(found.load(), "Thing")


def test_a_file_that_raises_leaves_no_module_behind(tmp_path: Path) -> None:
    write(tmp_path, "broken_on_import.py", "raise RuntimeError('no')")
    (found,) = dropped_in([tmp_path])

    with pytest.raises(RuntimeError, match="no"):
        found.load()

    assert not [name for name in sys.modules if "broken_on_import" in name]


def test_entry_points_are_found_with_their_distribution(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def entry_points(*, group: str) -> list[SimpleNamespace]:
        asked.append(group)
        return [
            SimpleNamespace(name="zeta", dist=None, load=lambda: "z"),
            SimpleNamespace(name="alpha", dist=SimpleNamespace(name="dist", version="1.2"), load=lambda: "a"),
        ]

    monkeypatch.setattr(importlib.metadata, "entry_points", entry_points)

    found = list(installed())

    assert asked == ["fallback_plugin"]
    assert [(plugin.name, plugin.origin, plugin.load()) for plugin in found] == [
        ("alpha", "dist 1.2", "a"),
        ("zeta", "an unknown distribution", "z"),
    ]


def test_what_a_program_passes_is_taken_as_it_is() -> None:
    plugin = object()

    (found,) = passed_in({"mine": plugin})

    assert (found.name, found.origin, found.load()) == ("mine", "explicit", plugin)
