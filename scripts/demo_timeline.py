"""One turn whose first model is rate-limited, told as it happens: in our own host, or in a real OpenCode."""

import os
import sys
import tempfile
import time
from argparse import ArgumentParser
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypeAlias

from tests.loopback.agent_server import AgentHome, AgentServer
from tests.loopback.event_log import Raw
from tests.loopback.host_server import HostServer
from tests.loopback.opencode_binary import find_opencode
from tests.loopback.opencode_home import OpenCodeHome
from tests.loopback.opencode_server import OpenCodeServer
from tests.loopback.provider import Request, ScriptedProvider
from tests.loopback.reply import Gate, status, stream

FIRST: Final = "demo/first-model"
SECOND: Final = "demo/second-model"
QUESTION: Final = "What is left to do?"
SETTINGS: Final = f'[fallback]\nfallback_models = ["{SECOND}"]\n'
LIMIT_S: Final = 15.0

Models: TypeAlias = Mapping[str, Sequence[str]]


class Timeline:
    """Print what happens, with the seconds since the prompt."""

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._colour = sys.stdout.isatty() and "NO_COLOR" not in os.environ

    @property
    def seconds(self) -> float:
        """Seconds since the prompt."""
        return time.monotonic() - self._began

    def say(self, who: str, text: str, *, at: float | None = None, colour: int = 0) -> None:
        """Print one line. ``at`` is the moment on the monotonic clock, by default now."""
        seconds = (at or time.monotonic()) - self._began
        line = f"{who:<10} {text}"
        painted = f"\033[{colour}m{line}\033[0m" if colour and self._colour else line
        print(f"  {seconds:5.2f} s  {painted}", flush=True)


class Turn:
    """What is known of the turn so far. ``heard`` is opened at the first words: the provider waits for it."""

    def __init__(self, provider: ScriptedProvider, timeline: Timeline, heard: Gate) -> None:
        self._provider = provider
        self._timeline = timeline
        self._heard = heard
        self._requests_told = 0
        self._said_switched = False
        self.answered_by: str | None = None

    @property
    def told(self) -> bool:
        """Whether the answer is complete and the person knows where it came from."""
        return self.answered_by is not None and self._said_switched

    def tell(self, event: Raw) -> None:
        """Tell what an event means to the person watching, if it means anything."""
        self._tell_requests()
        properties = event["properties"]
        match event["type"]:
            case "session.status" if properties["status"]["type"] == "retry":
                self._timeline.say(
                    "OpenCode", f"would wait and ask again: {properties['status']['message']}", colour=2
                )
            case "tui.toast.show":
                self._said_switched |= properties["variant"] == "success"
                self._timeline.say("toast", f"{properties['title']}: {properties['message']}", colour=33)
            case "message.part.delta" if properties["field"] == "text":
                if not self._heard.opened.done():
                    self._timeline.say("answer", f"first words: “{properties['delta'].strip()} …”")
                self._heard.open()
            case "message.updated" if properties["info"].get("finish") == "stop" and self.answered_by is None:
                self.answered_by = f"{properties['info']['providerID']}/{properties['info']['modelID']}"
                self._timeline.say("answer", f"complete, from {self.answered_by}", colour=32)

    def _tell_requests(self) -> None:
        requests = self._provider.requests()
        for request in requests[self._requests_told :]:
            self._timeline.say("provider", _told(request), at=request.arrived_at)
        self._requests_told = len(requests)


def _told(request: Request) -> str:
    name = f"demo/{request.model}"
    return f"{name} is asked and answers 429, too many requests" if name == FIRST else f"{name} is asked"


def main() -> int:
    """Run the demonstration and return its exit status."""
    options = ArgumentParser(prog="scripts/demo", description=__doc__)
    options.add_argument("--host", choices=("own", "opencode"), default="own", help="where the turn runs")
    in_opencode = options.parse_args().host == "opencode"
    heard = Gate()
    scripts = {
        "first-model": [status(429)],
        "second-model": [stream("Nothing is left ", heard, "to do: the turn went on.")],
    }
    models = {"demo": list(scripts)}
    with (
        tempfile.TemporaryDirectory(prefix="fallback-plugin-demo-") as root,
        ScriptedProvider(scripts) as provider,
        (_opencode if in_opencode else _own_host)(Path(root), provider, models) as server,
    ):
        return _watch_one_turn(server, provider, heard)


def _own_host(root: Path, provider: ScriptedProvider, models: Models) -> HostServer[AgentHome]:
    print("$ fallback-plugin serve", flush=True)
    return AgentServer(AgentHome(root, provider, models, SETTINGS))


def _opencode(root: Path, provider: ScriptedProvider, models: Models) -> HostServer[OpenCodeHome]:
    binary = find_opencode()
    if binary is None:
        sys.exit("error: OpenCode is installed but does not run on this machine")
    home = OpenCodeHome(root, provider, models)
    print("$ fallback-plugin install opencode")
    print(home.install_plugin(SETTINGS).rstrip())
    print("\n$ opencode serve", flush=True)
    return OpenCodeServer(binary, home)


def _watch_one_turn(server: HostServer[Any], provider: ScriptedProvider, heard: Gate) -> int:
    position = server.events.position
    session = server.create_session("Demonstration")
    print(f"\n  The chain is {FIRST}, then {SECOND}. The first one is rate-limited.\n")
    timeline = Timeline()
    timeline.say("you", QUESTION, colour=1)
    server.prompt(session, QUESTION, FIRST)
    turn = Turn(provider, timeline, heard)
    while not turn.told:
        if timeline.seconds > LIMIT_S:
            print(f"\nerror: no answer within {LIMIT_S:.0f} s\n{server.home.logs()}", file=sys.stderr)
            return 1
        event = server.events.wait_for(lambda _: True, since=position, timeout_s=LIMIT_S)
        position += 1
        turn.tell(event)
    took = timeline.seconds
    users = sum(message["info"]["role"] == "user" for message in server.messages(session))
    print(f"\n  {took:.1f} s in all. User messages in the transcript: {users}.")
    return 0 if turn.answered_by == SECOND else 1


if __name__ == "__main__":
    sys.exit(main())
