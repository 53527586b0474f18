"""Node.js, which runs the bridge in tests as OpenCode's own runtime does outside them."""

import os
import shutil
from pathlib import Path

import pytest


def node() -> Path:
    """Return where node is; without it a test is skipped, but never where everything has to run."""
    found = shutil.which("node")
    if found is None:
        (pytest.fail if os.environ.get("CI") else pytest.skip)("node is not installed")
    return Path(found)
