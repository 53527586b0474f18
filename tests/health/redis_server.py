"""A real redis-server on loopback, at a free port, keeping nothing on disk."""

import signal
import socket
import subprocess
from pathlib import Path
from typing import Final

READY: Final = "Ready to accept connections"


class RedisServer:
    """Started, frozen, killed and started again by its own process id; always at the same port."""

    def __init__(self, binary: Path, folder: Path, *, password: str = "") -> None:
        self._binary = binary
        self._folder = folder
        self._password = password
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port: int = free.getsockname()[1]
        self._process: subprocess.Popen[str] | None = None

    @property
    def url(self) -> str:
        login = f":{self._password}@" if self._password else ""
        return f"redis://{login}127.0.0.1:{self.port}/3"

    def start(self) -> None:
        """Come back when the server takes connections."""
        options = {
            "--port": str(self.port),
            "--bind": "127.0.0.1",
            "--dir": str(self._folder),
            "--save": "",
            "--appendonly": "no",
            "--requirepass": self._password,
        }
        self._process = subprocess.Popen(
            [self._binary, *(word for option in options.items() for word in option)],
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdout
        assert any(READY in line for line in self._process.stdout), "redis-server did not start"

    def freeze(self) -> None:
        """Keep connections open and answer nothing."""
        self._send(signal.SIGSTOP)

    def thaw(self) -> None:
        self._send(signal.SIGCONT)

    def kill(self) -> None:
        """End the server at once, as a power failure does."""
        process, self._process = self._process, None
        if process:
            process.kill()
            process.communicate()

    def _send(self, number: signal.Signals) -> None:
        assert self._process
        self._process.send_signal(number)
