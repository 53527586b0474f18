"""OpenCode's terminal UI on a screen of tmux: typed into, looked at, and quit, as a person does."""

import os
import select
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final, Self

from tests.loopback.opencode_home import OpenCodeHome

COLUMNS: Final = 130
LINES: Final = 40

_READY: Final = "Ask anything"
_START_LIMIT_S: Final = 45.0
_LOOK_AGAIN_S: Final = 0.05
_EXIT_LIMIT_S: Final = 15.0


class OpenCodeTerminal:
    """Run ``opencode`` in a prepared home, on a tmux server of its own."""

    def __init__(self, binary: Path, home: OpenCodeHome, tmux: Path) -> None:
        self._binary: Final = binary
        self._tmux: Final = tmux
        self._socket: Final = home.directory.with_name("tmux.sock")
        self.home: Final = home

    def __enter__(self) -> Self:
        """Start the UI; it takes a prompt when this returns."""
        size = ("-x", str(COLUMNS), "-y", str(LINES))
        self._run("new-session", "-d", *size, "--", str(self._binary))
        try:
            self.wait_for(_READY, timeout_s=_START_LIMIT_S)
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        """End whatever still runs on this screen."""
        self._end()

    @property
    def screen(self) -> str:
        """What the screen shows now, without colours."""
        return self._run("capture-pane", "-p")

    def wait_for(self, wanted: str | Callable[[str], object], *, timeout_s: float = 40.0) -> str:
        """Return the first screen that shows a text, or for which a condition holds."""
        deadline = time.monotonic() + timeout_s
        screen = self.screen
        while not (wanted in screen if isinstance(wanted, str) else wanted(screen)):
            if time.monotonic() > deadline:
                raise AssertionError(f"not on the screen within {timeout_s} s: {wanted!r}\n{screen}")
            # tmux tells nobody that a screen changed, so look again soon.
            time.sleep(_LOOK_AGAIN_S)
            screen = self.screen
        return screen

    def prompt(self, text: str) -> None:
        """Type a text and hand it in."""
        self._run("send-keys", "-l", text)
        self.wait_for(text)
        self.press("Enter")

    def press(self, *keys: str) -> None:
        """Press keys, by the names tmux has for them."""
        self._run("send-keys", *keys)

    def processes(self) -> list[int]:
        """Return the process ids of the UI and of everything it started."""
        ids = [int(self._run("list-panes", "-F", "#{pane_pid}"))]
        for process in ids:
            for children in Path(f"/proc/{process}/task").glob("*/children"):
                ids.extend(int(child) for child in children.read_text().split())
        return ids

    def quit(self) -> list[int]:
        """Leave the UI as a person does, and return the processes that are still there after a while."""
        watched = {process: os.pidfd_open(process) for process in self.processes()}
        try:
            self.press("C-c")
            deadline = time.monotonic() + _EXIT_LIMIT_S
            return [process for process, file in watched.items() if not _ends(file, deadline)]
        finally:
            for file in watched.values():
                os.close(file)

    def _run(self, *command: str) -> str:
        done = subprocess.run(
            [self._tmux, "-S", self._socket, "-f", os.devnull, *command],
            env={**self.home.environment, "TERM": "xterm-256color"},
            cwd=self.home.directory,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            raise AssertionError(f"tmux {command[0]}: {done.stderr.strip()}\n{self.home.logs()}")
        return done.stdout

    def _end(self) -> None:
        # The server is gone with its only program.
        with suppress(AssertionError):
            self._run("kill-server")


def _ends(process_file: int, deadline: float) -> bool:
    readable, _, _ = select.select([process_file], [], [], max(0.0, deadline - time.monotonic()))
    return bool(readable)
