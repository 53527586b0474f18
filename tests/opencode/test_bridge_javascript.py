"""The bridge file as it is installed, run by node with a stand-in for Python (tests/opencode/js)."""

import os
import subprocess
from pathlib import Path

import pytest

from fallback_plugin.opencode.install import bridge_text
from tests.opencode.node import node

SCRIPTS = sorted((Path(__file__).parent / "js").glob("*.test.mjs"))


@pytest.fixture
def bridge_file(tmp_path: Path) -> Path:
    file = tmp_path / "fallback-plugin.mjs"
    file.write_text(bridge_text("/python"), encoding="utf-8")
    return file


@pytest.mark.timeout(60)
@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.name)
def test_the_bridge_file_under_node(script: Path, bridge_file: Path) -> None:
    ran = subprocess.run(
        [node(), "--test", script],
        env={**os.environ, "BRIDGE_FILE": str(bridge_file)},
        capture_output=True,
        text=True,
        timeout=55,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout


def test_the_bridge_file_parses(bridge_file: Path) -> None:
    ran = subprocess.run([node(), "--check", bridge_file], capture_output=True, text=True, check=False)

    assert ran.returncode == 0, ran.stderr
