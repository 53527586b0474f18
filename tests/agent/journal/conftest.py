"""A host on a folder of its own."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.agent.persisted import Host


@pytest.fixture
def host(tmp_path: Path) -> Iterator[Host]:
    host = Host(tmp_path / "data")
    yield host
    host.close()
