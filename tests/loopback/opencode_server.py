"""A real ``opencode serve``."""

import os
import signal
from pathlib import Path

from tests.loopback.host_server import HostServer
from tests.loopback.opencode_home import OpenCodeHome
from tests.loopback.provider import SMALL_ANSWER, SMALL_MODEL


class OpenCodeServer(HostServer[OpenCodeHome]):
    """Run ``opencode serve``. ``port`` 0 is any free one."""

    def __init__(
        self, binary: Path, home: OpenCodeHome, *, port: int = 0, password: str | None = None
    ) -> None:
        command = (binary, "serve", "--port", str(port), "--hostname", "127.0.0.1")
        super().__init__(command, home, password=password)

    def warm_up(self, provider: str) -> None:
        """Run a first turn on a provider's small model: in it the host loads its tools, for seconds.

        OpenCode 1.18.33 never answers again if that turn is aborted before its model was asked.
        """
        self.prompt(session := self.create_session(), "Hello", f"{provider}/{SMALL_MODEL}")
        self.wait_for_answer(session, SMALL_ANSWER)

    def python_children(self) -> list[int]:
        """Return the process ids of the bridges' Python ends."""
        return [
            int(child)
            for children in Path(f"/proc/{self.pid}/task").glob("*/children")
            for child in children.read_text().split()
            if b"fallback_plugin" in Path(f"/proc/{child}/cmdline").read_bytes()
        ]

    def python_child(self) -> int | None:
        """Return the process id of the bridge's Python end, if there is one."""
        return next(iter(self.python_children()), None)

    def kill_python_child(self) -> None:
        """Kill the bridge's Python end the hard way."""
        child = self.python_child()
        if child is None:
            raise AssertionError("the bridge has no Python end to kill")
        os.kill(child, signal.SIGKILL)
