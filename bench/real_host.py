"""What the benchmarks of the real OpenCode share: which one, homes with and without the plugin, rounds."""

import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.loopback.opencode_binary import find_opencode
from tests.loopback.opencode_home import OpenCodeHome
from tests.loopback.opencode_server import OpenCodeServer
from tests.loopback.provider import ScriptedProvider


def opencode() -> Path:
    """Return the OpenCode to measure, or leave with an error."""
    binary = find_opencode()
    if binary is None:
        sys.exit("error: OpenCode does not run here: scripts/test installs it")
    return binary


def home_with_ours(
    root: Path,
    provider: ScriptedProvider,
    models: Mapping[str, Sequence[str]],
    settings: str,
    config: Mapping[str, Any] | None = None,
) -> OpenCodeHome:
    """Make a home with the plugin, installed as a user does; ``config`` is added to ``opencode.json``."""
    home = OpenCodeHome(root, provider, models, config)
    home.install_plugin(settings)
    return home


def home_with_file(
    root: Path, provider: ScriptedProvider, models: Mapping[str, Sequence[str]], plugin: Path
) -> OpenCodeHome:
    """Make a home with a plugin that is one JavaScript file."""
    home = OpenCodeHome(root, provider, models)
    home.plugin_file.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(plugin, home.plugin_file.parent)
    return home


def in_rounds(homes: Mapping[str, OpenCodeHome], rounds: int) -> Iterator[tuple[int, str, OpenCodeServer]]:
    """Run one server at a time, that of each home once a round, in an order that turns round.

    Servers beside each other would be measured by how well the others leave them the processor.
    """
    binary = opencode()
    for number in range(rounds):
        for name in list(homes)[:: -1 if number % 2 else 1]:
            with OpenCodeServer(binary, homes[name]) as server:
                yield number, name, server
