"""Every command and every option is in docs/command-line.md, and nothing else is."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import click
import pytest

from fallback_plugin.cli.main import COMMANDS, command_line

PAGE: Final = (Path(__file__).parents[2] / "docs" / "command-line.md").read_text(encoding="utf-8")
SECTIONS: Final = dict(
    re.findall(r"^## `fallback-plugin ([\w -]+)`\n(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL)
)


def commands() -> Iterator[tuple[str, click.Command]]:
    """Return the built-in commands that do something, with the words that call them."""
    context = click.Context(command_line)
    for name in COMMANDS:
        command = command_line.get_command(context, name)
        if isinstance(command, click.Group):
            if command.invoke_without_command:
                yield name, command
            yield from ((f"{name} {inner}", one) for inner, one in command.commands.items())
        elif command is not None:
            yield name, command


BUILT_IN: Final = dict(commands())


def options(command: click.Command) -> set[str]:
    return {name for option in command.params if isinstance(option, click.Option) for name in option.opts}


def test_there_is_a_section_for_each_command() -> None:
    assert set(SECTIONS) == set(BUILT_IN)


@pytest.mark.parametrize("name", BUILT_IN)
def test_a_section_names_the_options_of_its_command_and_no_others(name: str) -> None:
    named = set(re.findall(r"`(--[\w-]+)", SECTIONS[name]))

    assert named == options(BUILT_IN[name])


@pytest.mark.parametrize("name", BUILT_IN)
def test_a_command_and_each_of_its_options_say_what_they_are(name: str) -> None:
    command = BUILT_IN[name]

    assert command.help
    assert all(option.help for option in command.params if isinstance(option, click.Option))
