"""Commands that plugins add, outside a running host."""

from pathlib import Path

import click
import pytest

from fallback_plugin.plugins import discovery, register_commands


@pytest.fixture(autouse=True)
def no_other_plugins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(discovery, "BUILTINS", {})
    monkeypatch.setattr("importlib.metadata.entry_points", lambda **_: [])


def plugin_file(folder: Path, name: str, body: str) -> None:
    (folder / f"{name}.py").write_text(
        "import click\nfrom fallback_plugin import hookimpl\n@hookimpl\n"
        f"def register_commands(commands):\n    {body}\n"
    )


def test_register_commands_adds_a_command(tmp_path: Path) -> None:
    plugin_file(tmp_path, "hello", "commands.add_command(click.Command('hello'))")
    group = click.Group("fallback-plugin")

    errors = register_commands(group, dirs=[tmp_path])

    assert errors == ()
    assert list(group.commands) == ["hello"]


def test_a_plugin_that_raises_is_named_and_the_others_are_asked(tmp_path: Path) -> None:
    plugin_file(tmp_path, "broken", "raise ValueError('no')")
    plugin_file(tmp_path, "hello", "commands.add_command(click.Command('hello'))")
    group = click.Group("fallback-plugin")

    (error,) = register_commands(group, dirs=[tmp_path])

    assert "plugin 'broken'" in str(error)
    assert "broken.py) cannot add its commands: ValueError('no')" in str(error)
    assert list(group.commands) == ["hello"]


def test_a_blocked_plugin_adds_nothing(tmp_path: Path) -> None:
    plugin_file(tmp_path, "hello", "commands.add_command(click.Command('hello'))")
    group = click.Group("fallback-plugin")

    assert register_commands(group, dirs=[tmp_path], block=["hello"]) == ()
    assert group.commands == {}
