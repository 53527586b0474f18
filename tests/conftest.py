"""What every test shares."""

import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Final, NoReturn

import pytest
from hypothesis import HealthCheck, settings

from tests.loopback.opencode_binary import find_opencode

if TYPE_CHECKING:
    from tests.scheduling import RealHostInTurn

_REAL_HOST_LIMIT_S: Final = 180

# The same examples in every run, so that a change is what turns a test red; HYPOTHESIS_PROFILE=search looks
# for new ones.
_UNHURRIED: Final = [HealthCheck.too_slow]
settings.register_profile("repeatable", derandomize=True, deadline=None, suppress_health_check=_UNHURRIED)
settings.register_profile("search", max_examples=10_000, deadline=None, suppress_health_check=_UNHURRIED)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "repeatable"))


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="session")
def opencode_binary() -> Path:
    return find_opencode() or missing("OpenCode does not run here: scripts/test installs it with npm")


@pytest.fixture(scope="session")
def redis_binary() -> Path:
    found = shutil.which("redis-server")
    return Path(found) if found else missing("redis-server is not installed: health on several machines")


@pytest.fixture(scope="session")
def iproute2() -> Path:
    found = shutil.which("ip")
    return Path(found) if found else missing("iproute2 is not installed: machines are network namespaces")


@pytest.fixture(scope="session")
def tmux() -> Path:
    found = shutil.which("tmux")
    return Path(found) if found else missing("tmux is not installed: the terminal UI needs a screen")


def pytest_itemcollected(item: pytest.Item) -> None:
    """Give a test of the real host its time limit."""
    if item.get_closest_marker("real_host") and not item.get_closest_marker("timeout"):
        item.add_marker(pytest.mark.timeout(_REAL_HOST_LIMIT_S))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> "RealHostInTurn":
    """Decide which worker gets which test."""
    from tests.scheduling import RealHostInTurn  # noqa: PLC0415 -- xdist need not be installed

    return RealHostInTurn(config, log)


def missing(reason: str) -> NoReturn:
    """Skip where a person may lack a tool, fail where CI must not."""
    if os.environ.get("CI"):
        pytest.fail(reason)
    pytest.skip(reason)
