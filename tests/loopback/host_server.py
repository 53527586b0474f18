"""A server of sessions as a process of its own, and the few calls a client of it needs."""

import queue
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Generic, Protocol, Self, TypeVar

import httpx2

from tests.loopback.event_log import EventLog, Raw, folder_header

_ANNOUNCEMENT: Final = "listening on "
_START_LIMIT_S: Final = 45.0
_STOP_LIMIT_S: Final = 10.0


class Home(Protocol):
    """Where a server runs."""

    @property
    def directory(self) -> Path:
        """The project folder."""
        ...

    @property
    def environment(self) -> Mapping[str, str]:
        """All of the server's environment but its password."""
        ...

    @property
    def output_file(self) -> Path:
        """Where its standard error goes."""
        ...

    def logs(self) -> str:
        """Return the ends of all logs."""
        ...


HomeT = TypeVar("HomeT", bound=Home)


class HostServer(Generic[HomeT]):
    """Run a server in a prepared home, with its event stream in `events`.

    ``command`` starts it. With a ``password`` the server asks for it.
    """

    def __init__(self, command: Sequence[str | Path], home: HomeT, *, password: str | None = None) -> None:
        self._command: Final = command
        self._password: Final = password
        self.home: Final = home

    def __enter__(self) -> Self:
        """Start the server; its plugins are loaded when this returns, if they load at all."""
        self._output = self.home.output_file.open("w")
        self._process = subprocess.Popen(
            self._command,
            env={
                **self.home.environment,
                **({"OPENCODE_SERVER_PASSWORD": self._password} if self._password else {}),
            },
            cwd=self.home.directory,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=self._output,
            text=True,
        )
        try:
            self.url = self._announced_url()
            auth = httpx2.BasicAuth("opencode", self._password) if self._password else None
            self._http = httpx2.Client(base_url=self.url, timeout=30, auth=auth)
            self.events = EventLog(self.url, auth)
            self.events.start()
            # Configuration and plugins of a folder are loaded at the first request that needs them.
            self._call("GET", "/config")
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        """Stop the server by its process id."""
        self._stop()
        self.events.join()
        self._http.close()

    @property
    def pid(self) -> int:
        """The server's process id."""
        return self._process.pid

    @property
    def port(self) -> int:
        """The port the server listens on."""
        return int(self.url.rpartition(":")[2])

    def kill(self) -> None:
        """End the server the hard way, in the middle of whatever it does."""
        self._process.kill()
        self._process.wait()
        self.events.join()

    def stop(self) -> int:
        """Ask the server to end, as a service manager does, and return its exit status."""
        self._process.terminate()
        return self._process.wait(_STOP_LIMIT_S)

    def create_session(self, title: str | None = "A test", *, directory: Path | None = None) -> str:
        """Create a session and return its id. A title of its own keeps the host from asking for one."""
        created: dict[str, str] = self._call("POST", "/session", {"title": title} if title else {}, directory)
        return created["id"]

    def prompt(
        self,
        session: str,
        text: str,
        model: str | None = None,
        *,
        directory: Path | None = None,
        **more: object,
    ) -> None:
        """Hand a prompt in and return when the host accepted it. ``model`` is ``provider/model``."""
        body: dict[str, object] = {"parts": [{"type": "text", "text": text}], **more}
        if model:
            provider, _, name = model.partition("/")
            body["model"] = {"providerID": provider, "modelID": name}
        self._call("POST", f"/session/{session}/prompt_async", body, directory)

    def answer(self, session: str, text: str, model: str | None = None, **more: object) -> dict[str, Any]:
        """Hand a prompt in and return its answer as ``{info, parts}``, once it has ended."""
        body: dict[str, object] = {"parts": [{"type": "text", "text": text}], **more}
        if model:
            provider, _, name = model.partition("/")
            body["model"] = {"providerID": provider, "modelID": name}
        answer: dict[str, Any] = self._call("POST", f"/session/{session}/message", body)
        return answer

    def abort(self, session: str) -> None:
        """Stop a session's run, as a person's Escape does."""
        self._call("POST", f"/session/{session}/abort")

    def reply_to_permission(self, request: str, reply: str) -> None:
        """Answer a permission request as the person does: ``once``, ``always`` or ``reject``."""
        self._call("POST", f"/permission/{request}/reply", {"reply": reply})

    def reply_to_question(self, request: str, *labels: str) -> None:
        """Answer a request of one question with these options, or reject it if none are given."""
        if labels:
            self._call("POST", f"/question/{request}/reply", {"answers": [labels]})
        else:
            self._call("POST", f"/question/{request}/reject")

    def delete_session(self, session: str) -> None:
        """Delete a session."""
        self._call("DELETE", f"/session/{session}")

    def delete_message(self, session: str, message: str) -> None:
        """Take one message out of a session's history."""
        self._call("DELETE", f"/session/{session}/message/{message}")

    def summarize(self, session: str, model: str) -> None:
        """Shorten a session's history with a model, ``provider/model``, and wait for it."""
        provider, _, name = model.partition("/")
        self._call("POST", f"/session/{session}/summarize", {"providerID": provider, "modelID": name})

    def dispose(self, directory: Path) -> None:
        """Put a folder's instance away, as a change of its configuration does."""
        self._call("POST", "/instance/dispose", directory=directory)

    def messages(self, session: str) -> list[dict[str, Any]]:
        """Return a session's history as ``{info, parts}``, oldest first."""
        history: list[dict[str, Any]] = self._call("GET", f"/session/{session}/message")
        return history

    def is_busy(self, session: str) -> bool:
        """Tell whether the session runs or waits to retry."""
        return session in self._call("GET", "/session/status")

    def wait_for_answer(self, session: str, text: str, *, since: int = 0, timeout_s: float = 60.0) -> Raw:
        """Wait until a part with exactly this text is complete, and then until the session is idle."""

        def complete(event: Raw) -> bool:
            part = event["properties"].get("part", {})
            return (
                part.get("sessionID") == session
                and part.get("text") == text
                and "end" in part.get("time", {})
            )

        part = self.events.wait_for(complete, since=since, timeout_s=timeout_s)
        position = self.events.since().index(part)
        self.events.wait_for(
            lambda event: event["type"] == "session.idle" and event["properties"]["sessionID"] == session,
            since=position,
        )
        return part

    def _call(
        self,
        method: str,
        path: str,
        body: Mapping[str, object] | None = None,
        directory: Path | None = None,
    ) -> Any:
        response = self._http.request(method, path, json=body, headers=folder_header(directory))
        response.raise_for_status()
        return response.json() if response.content else None

    def _announced_url(self) -> str:
        lines: queue.Queue[str] = queue.Queue()
        self._follower = threading.Thread(target=self._follow_output, args=(lines,), daemon=True)
        self._follower.start()
        deadline = time.monotonic() + _START_LIMIT_S
        while line := lines.get(timeout=max(0.0, deadline - time.monotonic())):
            _, found, url = line.partition(_ANNOUNCEMENT)
            if found:
                return url.strip()
        raise AssertionError(f"the server ended before it listened:\n{self.home.logs()}")

    def _follow_output(self, lines: "queue.Queue[str]") -> None:
        stdout = self._process.stdout
        assert stdout is not None
        with stdout:
            for line in stdout:
                lines.put(line)
        lines.put("")

    def _stop(self) -> None:
        self._process.terminate()
        try:
            self._process.wait(_STOP_LIMIT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._follower.join()
        self._output.close()
