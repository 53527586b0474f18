"""The bridge file, run by node with a stand-in for Python (tests/opencode/js)."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

SCRIPTS = sorted((Path(__file__).parent / "js").glob("*.test.mjs"))


@pytest.mark.timeout(60)
@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.name)
def test_the_bridge_file_under_node(script: Path) -> None:
    node = shutil.which("node")
    if node is None:
        (pytest.fail if os.environ.get("CI") else pytest.skip)("node is not installed")
    ran = subprocess.run(
        [node, "--test", str(script)], capture_output=True, text=True, timeout=55, check=False
    )
    assert ran.returncode == 0, ran.stdout
