"""The page's pager under node."""

import os
import subprocess
from pathlib import Path
from typing import Final

import fallback_plugin
from tests.opencode.node import node

WEB: Final = Path(fallback_plugin.__file__).parent / "agent" / "http" / "web"


def node_test(script: str, **environment: str) -> str | None:
    """Run a script of tests; return what it says if one of them fails."""
    ran = subprocess.run(
        [node(), "--test", Path(__file__).parent / "js" / script],
        env={**os.environ, "WEB": str(WEB), **environment},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    return ran.stdout if ran.returncode else None
