from pathlib import Path

import pytest

from fallback_plugin.health import default_file


def test_the_file_stands_in_the_state_folder() -> None:
    environ = {"XDG_STATE_HOME": "/state", "HOME": "/home/me"}

    assert default_file(environ) == Path("/state/fallback-plugin/health.sqlite3")


@pytest.mark.parametrize("state_home", ["", "state"])
def test_without_an_absolute_state_folder_it_stands_below_home(state_home: str) -> None:
    environ = {"XDG_STATE_HOME": state_home, "HOME": "/home/me"}

    assert default_file(environ) == Path("/home/me/.local/state/fallback-plugin/health.sqlite3")
