from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.health.redis_server import RedisServer


@pytest.fixture
def redis_server(redis_binary: Path, tmp_path: Path) -> Iterator[RedisServer]:
    server = RedisServer(redis_binary, tmp_path)
    server.start()
    yield server
    server.kill()
