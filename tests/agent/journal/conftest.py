"""A host on a folder of its own, and what follows when it is killed."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.agent.persisted import Host, Restarts


@pytest.fixture
def restarts(tmp_path: Path) -> Iterator[Restarts]:
    restarts = Restarts(tmp_path)
    yield restarts
    restarts.close()


@pytest.fixture
def host(restarts: Restarts) -> Host:
    return restarts.first()
