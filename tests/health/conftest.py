import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.health.redis_server import RedisServer


@pytest.fixture(scope="session")
def redis_binary() -> Path:
    found = shutil.which("redis-server")
    if found:
        return Path(found)
    reason = "redis-server is not installed: the tests of health on several machines need one"
    if os.environ.get("CI"):
        pytest.fail(reason)
    pytest.skip(reason)


@pytest.fixture
def redis_server(redis_binary: Path, tmp_path: Path) -> Iterator[RedisServer]:
    server = RedisServer(redis_binary, tmp_path)
    server.start()
    yield server
    server.kill()
