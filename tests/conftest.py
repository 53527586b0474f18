"""What every test shares."""

import os
from pathlib import Path
from typing import Final, NoReturn

import pytest

from tests.loopback.opencode_binary import find_opencode

_REAL_HOST_LIMIT_S: Final = 60


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="session")
def opencode_binary() -> Path:
    return find_opencode() or _missing("OpenCode does not run here: scripts/test installs it with npm")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give tests of the real host their time limit, and one worker that begins with them."""
    for item in items:
        if item.get_closest_marker("real_host"):
            item.add_marker(pytest.mark.xdist_group("real_host"))
            if not item.get_closest_marker("timeout"):
                item.add_marker(pytest.mark.timeout(_REAL_HOST_LIMIT_S))
    items.sort(key=lambda item: item.get_closest_marker("real_host") is None)


def _missing(reason: str) -> NoReturn:
    """Skip where a person may lack a tool, fail where CI must not."""
    if os.environ.get("CI"):
        pytest.fail(reason)
    pytest.skip(reason)
