"""The real bridge process, driven line by line the way a host does."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

REPOSITORY: Final = Path(__file__).parents[2]
COMMAND: Final = ("-P", "-m", "fallback_plugin", "bridge")


class BridgeProcess:
    """One run of ``fallback-plugin bridge`` with this test as its host."""

    def __init__(self, process: "subprocess.Popen[bytes]", directory: Path) -> None:
        self.process = process
        self.directory = directory
        self._next_id = 100

    def write(self, raw: bytes) -> None:
        """Write bytes as they are."""
        assert self.process.stdin is not None
        self.process.stdin.write(raw)
        self.process.stdin.flush()

    def send(self, message: Mapping[str, Any]) -> None:
        """Send one message."""
        self.write(json.dumps({"jsonrpc": "2.0", **message}, separators=(",", ":")).encode() + b"\n")

    def event(self, sequence: int, kind: str, **properties: object) -> None:
        """Send an event."""
        event = {"type": kind, "properties": properties}
        self.send({"method": "event", "params": {"sequence": sequence, "event": event}})

    def ask(self, question: str, **params: object) -> Any:
        """Ask a question and return the answer."""
        self._next_id += 1
        self.send({"id": self._next_id, "method": f"hook/{question}", "params": params})
        while (message := self.receive()).get("id") != self._next_id or "method" in message:
            pass
        return message

    def receive(self) -> dict[str, Any]:
        """Wait for the next message."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, "the bridge closed its output"
        message: dict[str, Any] = json.loads(line)
        return message

    def until(self, method: str) -> dict[str, Any]:
        """Wait for a request or notification, and leave out what comes before it."""
        while (message := self.receive()).get("method") != method:
            pass
        return message

    def toast(self) -> str:
        """Wait for the next toast, accept it, and return its text."""
        while (call := self.until("host/call"))["params"]["call"] != "tui.showToast":
            pass
        self.send({"id": call["id"], "result": {"status": 200, "data": True}})
        message: str = call["params"]["arguments"]["body"]["message"]
        return message

    def greet(self, version: int = 1) -> dict[str, Any]:
        """Shake hands and return the answer."""
        host = {"name": "opencode", "version": None, "kind": "serve"}
        params = {"protocolVersion": version, "host": host, "directory": str(self.directory)}
        self.send({"id": 1, "method": "initialize", "params": params})
        return self.receive()

    def leave(self) -> int:
        """Close its input, and return the exit status."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        return self.process.wait()


@contextmanager
def bridge_process(home: Path, **environ: str) -> Iterator[BridgeProcess]:
    """Start the bridge below ``home``, with nothing of the person who runs the tests."""
    project, temporary = home / "project", home / "temporary"
    for folder in (project, temporary):
        folder.mkdir(exist_ok=True)
    own = {
        "HOME": str(home),
        "XDG_CONFIG_HOME": str(home / "config"),
        "XDG_STATE_HOME": str(home / "state"),
        "PYTHONPATH": str(REPOSITORY),
        "TMPDIR": str(temporary),  # a bridge that is killed leaves its pipes there
        "PATH": os.environ["PATH"],
        **environ,
    }
    pipe = subprocess.PIPE
    with subprocess.Popen(
        [sys.executable, *COMMAND], stdin=pipe, stdout=pipe, stderr=pipe, cwd=home, env=own
    ) as process:
        try:
            yield BridgeProcess(process, project)
        finally:
            process.kill()
