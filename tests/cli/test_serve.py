"""``fallback-plugin serve`` as far as it needs no server."""

import subprocess
import sys

MISSING = """
import sys
sys.modules["starlette"] = None
from fallback_plugin.cli.main import main
sys.argv = ["fallback-plugin", "serve", "--port", "0"]
main()
"""


def test_a_missing_extra_is_one_line_with_what_to_run() -> None:
    ended = subprocess.run([sys.executable, "-c", MISSING], capture_output=True, text=True, check=False)

    assert (ended.returncode, ended.stdout) == (1, "")
    assert ended.stderr == (
        "error: starlette is not installed, which serve needs: "
        "run pip install 'fallback-plugin[serve]', pip install '.[serve]' in a checkout, "
        "or with pipx: pipx runpip fallback-plugin install 'fallback-plugin[serve]'\n"
    )
