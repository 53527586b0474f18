"""A run of ``fallback-plugin attach``, and what it says."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Final, Self

_ROOT: Final = Path(__file__).parents[2]


class AttachProcess:
    """Run the command as a person does; it is ended with the block."""

    def __init__(self, *arguments: str, environment: Mapping[str, str], directory: Path) -> None:
        self._arguments = arguments
        self._environment = {**environment, "PYTHONPATH": str(_ROOT)}
        self._directory = directory
        self._lines: list[str] = []
        self._said = threading.Condition()

    def __enter__(self) -> Self:
        """Start it."""
        self.process = subprocess.Popen(
            [sys.executable, "-P", "-m", "fallback_plugin", "attach", *self._arguments],
            env=self._environment,
            cwd=self._directory,
            stdin=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._follower = threading.Thread(target=self._follow, daemon=True)
        self._follower.start()
        return self

    def __exit__(self, *_: object) -> None:
        """End it the hard way if it has not ended."""
        if self.process.poll() is None:
            os.kill(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self._follower.join()

    @property
    def log(self) -> list[str]:
        """The lines so far."""
        with self._said:
            return list(self._lines)

    def saying(self, words: str) -> list[str]:
        """Return the lines so far that hold these words."""
        return [line for line in self.log if words in line]

    def wait_for(self, words: str, *, count: int = 1, timeout_s: float = 40.0) -> str:
        """Wait until so many lines hold these words, and return the last of them."""
        with self._said:
            if not self._said.wait_for(lambda: len(self.saying(words)) >= count, timeout_s):
                raise AssertionError(f"{words!r} was not said:\n" + "\n".join(self._lines))
            return self.saying(words)[count - 1]

    def end(self, number: signal.Signals) -> int:
        """Send a signal and return the exit status."""
        self.process.send_signal(number)
        return self.process.wait(10)

    def _follow(self) -> None:
        stream = self.process.stderr
        assert stream is not None
        with stream:
            for line in stream:
                with self._said:
                    self._lines.append(line.rstrip())
                    self._said.notify_all()
