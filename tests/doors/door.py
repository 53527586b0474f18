"""The three ways into the plugin: a bridge inside OpenCode, ``attach`` beside it, and our own host."""

import json
import re
import subprocess
import sys
import time
from abc import ABC, abstractmethod
from contextlib import ExitStack
from pathlib import Path
from typing import Any, ClassVar, Final, Self

from fallback_plugin.health import SqliteHealth, default_file
from tests.attach.attach_process import AttachProcess
from tests.doors.observation import Observation, shown_closure, without_clock
from tests.doors.sequences import MODELS, Settings
from tests.loopback.agent_server import AgentHome, AgentServer
from tests.loopback.event_log import Raw, session_of, toast_of
from tests.loopback.host_server import HostServer
from tests.loopback.opencode_home import OpenCodeHome, provider_each, ref
from tests.loopback.opencode_server import OpenCodeServer
from tests.loopback.provider import ScriptedProvider

LIMIT_S: Final = 60.0
MISTAKE: Final = "[fallback]\nmax_attempts = true\n"
SHORT_S: Final = 60.0
"""Closures that are made for no longer than this are waited for."""

_ANSWER: Final = re.compile(r"Answer \d+ of (\w+)\.")

TOAST_S: Final = 0.6
"""Twice what the bridge keeps a toast for, and drops it if the user stops the turn meanwhile."""

READY: Final = "the host's version is"
"""What the log of the plugin holds once for each start, as soon as it is at work."""


class Door(ABC):
    """One session behind one way into the plugin, with a home of its own. Use it as a context manager."""

    name: ClassVar[str]

    def __init__(self, root: Path, provider: ScriptedProvider, binary: Path) -> None:
        self._root: Final = root
        self._provider: Final = provider
        self._binary: Final = binary
        self._running: Final = ExitStack()
        self._earlier_toasts: list[Raw] = []
        self._shown = self._asked = 0
        self._outcome = ""

    def __enter__(self) -> Self:
        """Start it with the settings that sequences begin with, and create the session."""
        try:
            self._open(Settings().toml())
            self.session = self.server.create_session()
        except BaseException:
            self._running.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        """End its processes."""
        self._running.close()

    @property
    @abstractmethod
    def server(self) -> HostServer[Any]:
        """The server that holds the session."""

    @property
    @abstractmethod
    def home(self) -> OpenCodeHome | AgentHome:
        """Where it runs."""

    @abstractmethod
    def _open(self, settings: str) -> None:
        """Make the home and start what runs in it."""

    @abstractmethod
    def restart(self) -> None:
        """Kill the process that holds the plugin, and start it again."""

    @abstractmethod
    def write_settings(self, text: str) -> None:
        """Replace the settings that are not this door's own."""

    def logs(self) -> str:
        """Return the ends of all logs."""
        return self.home.logs()

    def begin_step(self) -> None:
        """Count from here what the next observation reports."""
        self._shown, self._asked, self._outcome = len(self._toasts()), len(self._requests()), ""

    def prompt(self, text: str, model: str) -> None:
        """Have a prompt answered, or wait until it is said that no model answers."""
        events, position = self.server.events, self.server.events.position
        self.server.prompt(self.session, text, ref(model), agent="build")

        def over(event: Raw) -> bool:
            toast = toast_of(event)
            return self._answer_in(event) is not None or bool(toast and toast["variant"] == "error")

        sign = events.wait_for(over, since=position, timeout_s=LIMIT_S)
        author = self._answer_in(sign)
        self._outcome = f"answered by {author}" if author else "no answer"
        if not author and self.goes_on_asking(position):
            self.server.abort(self.session)
        self._wait_until_idle()

    def goes_on_asking(self, since: int) -> bool:  # noqa: ARG002 -- some hosts do
        """Tell whether the host asks the last model by itself, so that only the user ends the turn."""
        return False

    def stop(self, text: str, model: str, half: str) -> None:
        """Stop a prompt once ``half`` of its answer is there."""
        events, position = self.server.events, self.server.events.position
        self.server.prompt(self.session, text, ref(model), agent="build")
        events.wait_for(
            lambda event: (
                event["type"] == "message.part.delta"
                and session_of(event) == self.session
                and event["properties"]["delta"] == half
            ),
            since=position,
            timeout_s=LIMIT_S,
        )
        self.is_quiet(TOAST_S)
        self.server.abort(self.session)
        self._outcome = "stopped"
        self._wait_until_idle()

    def clear(self, model: str | None) -> None:
        """Clear what is closed, by the command."""
        self._command("health", "clear", ref(model) if model else "--all")

    def change(self, settings: Settings, *, mistake_first: bool) -> None:
        """Write other settings and wait until the door says that they are in force."""
        if mistake_first:
            self._write_and_wait(MISTAKE, "error")
        self._write_and_wait(settings.toml(), "info")

    def expire(self) -> None:
        """Wait until what was closed for a short time is half-open."""
        until = max(
            (record.until for _, record in self._closures() if record.until - record.closed_at < SHORT_S),
            default=0.0,
        )
        while time.time() <= until:
            self.is_quiet(until - time.time() + 0.01)

    def is_quiet(self, window_s: float) -> bool:
        """Watch for ``window_s`` whether no model is asked anything more."""
        return self._provider.is_quiet(self.session, after=len(self._requests()), window_s=window_s)

    def observe(self) -> Observation:
        """Return what the step led to, as far as it is to be seen by now."""
        now = time.time()
        return Observation(
            outcome=self._outcome,
            asked=tuple(request.model for request in self._requests()[self._asked :]),
            closed=tuple(shown_closure(key, record, now) for key, record in self._closures()),
            words=tuple(self._words_of(toast) for toast in self._toasts()[self._shown :]),
        )

    def reported_health(self) -> tuple[str, ...]:
        """Return what ``fallback-plugin health --json`` reports."""
        entries = json.loads(self._command("health", "--json"))
        return tuple(f"{entry['closes']}: {entry['reason']}, {entry['state']}" for entry in entries)

    def transcript(self) -> tuple[str, ...]:
        """Return the prompts and the complete answers of the session's history; an answer names its model."""
        texts = (
            (message["info"]["role"], "".join(part.get("text", "") for part in message["parts"]))
            for message in self.server.messages(self.session)
        )
        return tuple(f"{role}: {text}" for role, text in texts if role == "user" or _ANSWER.fullmatch(text))

    def _requests(self) -> list[Any]:
        return list(self._provider.requests(session=self.session))

    def _toasts(self) -> list[Raw]:
        return [*self._earlier_toasts, *self.server.events.toasts()]

    def _words_of(self, toast: Raw) -> str:
        message = without_clock(toast["message"]).replace(str(self.home.settings_file), "fallback.toml")
        return f"{toast['variant']}: {toast['title']}: {message}"

    def _closures(self) -> list[Any]:
        store = SqliteHealth(default_file(self.home.environment), on_trouble=_raise)
        try:
            return list(store.view(time.time()).entries())
        finally:
            store.shut()

    def _answer_in(self, event: Raw) -> str | None:
        """Return the model whose complete answer an event shows."""
        part = event["properties"].get("part", {})
        if part.get("sessionID") != self.session or "end" not in part.get("time", {}):
            return None
        found = _ANSWER.fullmatch(part.get("text", ""))
        return found[1] if found else None

    def _wait_until_idle(self) -> None:
        deadline = time.monotonic() + LIMIT_S
        while self.server.is_busy(self.session):
            assert time.monotonic() < deadline, f"{self.name}: the session stays busy"

    def _write_and_wait(self, text: str, variant: str) -> None:
        position = self.server.events.position
        self.write_settings(text)
        self.server.events.wait_for_toast(variant, since=position)

    def _command(self, *arguments: str) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "fallback_plugin", *arguments],
            env=dict(self.home.environment),
            cwd=self.home.directory,
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout

    def _keep_toasts(self) -> None:
        self._earlier_toasts += self.server.events.toasts()


class Inside(Door):
    """The plugin installed in a real ``opencode serve``."""

    name = "serve"

    def _open(self, settings: str) -> None:
        self._home = OpenCodeHome(self._root, self._provider, provider_each(MODELS))
        self._home.install_plugin(settings)
        self._start()

    def _start(self, port: int = 0) -> None:
        self._server = self._running.enter_context(OpenCodeServer(self._binary, self._home, port=port))

    def goes_on_asking(self, since: int) -> bool:
        """Tell whether OpenCode waits to ask the last model again."""
        statuses = self.server.events.since(since, type="session.status", session=self.session)
        return bool(statuses) and statuses[-1]["properties"]["status"]["type"] == "retry"

    @property
    def server(self) -> OpenCodeServer:
        """The server that holds the session."""
        return self._server

    @property
    def home(self) -> OpenCodeHome:
        """Where it runs."""
        return self._home

    def restart(self) -> None:
        """Kill the server, which takes the bridge with it, and start it again."""
        self._keep_toasts()
        self._server.kill()
        starts = self._starts()
        self._start(self._server.port)
        self.server.is_busy(self.session)  # OpenCode loads its plugins at the first question about a folder
        deadline = time.monotonic() + LIMIT_S
        while self._starts() == starts:
            assert time.monotonic() < deadline, "the plugin does not start again"

    def _starts(self) -> int:
        """Return how often the plugin has begun to work."""
        return self._home.plugin_log_file.read_text().count(READY)

    def write_settings(self, text: str) -> None:
        """Replace the settings."""
        self._home.write_settings(text)


class Attached(Inside):
    """``fallback-plugin attach`` beside a real ``opencode serve`` without the plugin."""

    name = "attach"

    def _open(self, settings: str) -> None:
        self._home = OpenCodeHome(self._root, self._provider, provider_each(MODELS))
        self._home.write_settings(settings)
        self._start()
        self._attach()

    def _attach(self) -> None:
        self._process = self._running.enter_context(
            AttachProcess(
                self._server.url, environment=self._home.environment, directory=self._home.directory
            )
        )
        self._process.wait_for(": attached (")

    def restart(self) -> None:
        """Kill the process beside the server, which goes on."""
        self._process.process.kill()
        self._process.process.wait()
        self._attach()

    def logs(self) -> str:
        """Return the ends of all logs."""
        return "\n".join([super().logs(), "--- attach", *self._process.log[-100:]])


class OwnHost(Door):
    """``fallback-plugin serve``."""

    name = "agent"

    def _open(self, settings: str) -> None:
        self._home = AgentHome(self._root, self._provider, provider_each(MODELS))
        self._providers = self._home.settings_file.read_text()
        self.write_settings(settings)
        self._start()

    def _start(self) -> None:
        self._server = self._running.enter_context(AgentServer(self._home))

    @property
    def server(self) -> AgentServer:
        """The server that holds the session."""
        return self._server

    @property
    def home(self) -> AgentHome:
        """Where it runs."""
        return self._home

    def restart(self) -> None:
        """Kill the host and start it again."""
        self._keep_toasts()
        self._server.kill()
        self._start()

    def write_settings(self, text: str) -> None:
        """Replace the settings but for the providers, in one step."""
        draft = self._home.settings_file.with_suffix(".draft")
        draft.write_text(f"{text}\n{self._providers}")
        draft.replace(self._home.settings_file)


DOORS: Final[tuple[type[Door], ...]] = (Inside, Attached, OwnHost)


def _raise(trouble: str) -> None:
    raise AssertionError(trouble)
