import os
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from fallback_plugin.opencode.handshake import EXIT_REFUSED, first_line

REPOSITORY: Final = Path(__file__).parents[2]
HEAVY: Final = {"json", "typing", "re", "logging", "asyncio", "anyio", "click", "pluggy", "pydantic"}


def python(code: str, *arguments: str, stdin: int = subprocess.DEVNULL) -> "subprocess.CompletedProcess[str]":
    environ = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    command = [sys.executable, "-P", "-c", code, *arguments]
    return subprocess.run(command, stdin=stdin, capture_output=True, text=True, env=environ, check=False)


@pytest.mark.parametrize("module", ["fallback_plugin.__main__", "fallback_plugin.opencode.handshake"])
def test_nothing_heavy_is_imported_before_the_answer(module: str) -> None:
    ran = python(f"import sys; before = set(sys.modules); import {module}; print(*set(sys.modules) - before)")
    assert set(ran.stdout.split()).isdisjoint(HEAVY)


def test_the_command_bridge_never_imports_click() -> None:
    code = (
        "import sys, atexit; atexit.register(lambda: print('click' in sys.modules));"
        "from fallback_plugin.__main__ import main; main()"
    )
    ran = python(code, "bridge")
    assert (ran.returncode, ran.stdout) == (0, "False\n")


def test_started_by_hand_it_says_who_starts_it() -> None:
    controller, terminal = os.openpty()
    try:
        ran = python("from fallback_plugin.__main__ import main; main()", "bridge", stdin=terminal)
    finally:
        os.close(controller)
        os.close(terminal)
    assert ran.returncode == EXIT_REFUSED
    assert "started by OpenCode" in ran.stderr


def test_what_follows_the_first_line_is_kept() -> None:
    receive, send = os.pipe()
    os.write(send, b"first\nsecond\nthi")
    try:
        assert first_line(receive) == (b"first", b"second\nthi")
    finally:
        os.close(receive)
        os.close(send)


def test_a_first_line_that_never_ends_is_cut_off() -> None:
    with Path("/dev/zero").open("rb") as endless:
        line, rest = first_line(endless.fileno())
    assert 1024 * 1024 < len(line) <= 2 * 1024 * 1024
    assert rest == b""
