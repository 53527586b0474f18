"""``opencode run``: one prompt in a process of its own, with its exit status and what it printed."""

import json
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tests.loopback.opencode_home import OpenCodeHome

LIMIT_S: Final = 120.0
PROMPT: Final = "Who answers?"


@dataclass(frozen=True, slots=True)
class Finished:
    """A run that has ended."""

    status: int
    stdout: str
    stderr: str

    @property
    def answer(self) -> str:
        """The last line of what was printed."""
        return self.stdout.strip().rpartition("\n")[2]

    def lines(self, kind: str) -> list[dict[str, Any]]:
        """Return the JSON lines of a kind, of a run in that format."""
        found = [json.loads(line) for line in self.stdout.splitlines() if line.startswith("{")]
        return [line for line in found if line["type"] == kind]


def run(binary: Path, home: OpenCodeHome, model: str, *options: str, text: str = PROMPT) -> Finished:
    """Run one prompt to its end; killed, and an error, after `LIMIT_S`."""
    command: list[str | Path] = [binary, "run", "--model", model, "--title", "A test", *options, text]
    done = subprocess.run(
        command,
        env=home.environment,
        cwd=home.directory,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    return Finished(done.returncode, done.stdout, done.stderr)
