"""Many turns in the real OpenCode, with random failures and a person who stops at random moments.

After every turn the provider's requests are held against what its failures allow; after every stop nothing
may arrive until the next prompt; the Python end may not grow. It ends by itself, with 1 if anything was
wrong, and then with that turn's log.

Run it from the repository as ``python -m bench.soak [turns] [seed]``; a seed gives the same turns again.
"""

import os
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from bench.process import open_handles, resident_bytes
from bench.real_host import home_with_ours, opencode
from bench.soak_plan import CHAIN, Abort, Turn, draw
from tests.loopback.event_log import Raw, session_of, toast_of
from tests.loopback.opencode_server import OpenCodeServer
from tests.loopback.provider import Request, ScriptedProvider
from tests.loopback.reply import stream

MARKS: Final = 6
GROWTH_BYTES: Final = 4_000_000
"""What the Python end may grow by after the first mark."""
GROWTH_HANDLES: Final = 2
MOST_VIOLATIONS: Final = 10
MOMENT_LIMIT_S: Final = 20.0
LAST_LOOK_S: Final = 4.5
CROSSING_S: Final = 0.5
"""A prompt that is on its way when a person stops the session cannot be called back. It is counted and not
forbidden if its one request comes this soon after the stop and is over, as is the session, when we look."""
# Nothing cools, so that every turn begins with the primary; the clocks are short, so that hangs are as well.
SETTINGS: Final = """
[fallback]
cooldown = 0
first_token_timeout = "3s"
stall_timeout = "3s"
fallback_models = ["fakeb/fallback-a", "fakec/fallback-b"]
"""
MODELS: Final = {home: [model] for home, model in zip(("fake", "fakeb", "fakec"), CHAIN, strict=True)}


class ViolationError(AssertionError):
    """Something that must not happen, happened."""


class Soak:
    """Plays turns one after the other, eight or so a session."""

    def __init__(self, server: OpenCodeServer, provider: ScriptedProvider) -> None:
        self.server = server
        self.provider = provider
        self.seen: Counter[str] = Counter()
        self._session = ""
        self._prompts = 0
        self._asked = 0
        self._began = 0.0
        self._position = 0
        self._logged = 0
        self._left: dict[str, int] = {}

    def warm_up(self) -> None:
        """Let the host load what it loads at its first turn."""
        self.provider.script(CHAIN[0], stream("Warm."))
        session = self.server.create_session()
        self.server.prompt(session, "Warm up.", f"fake/{CHAIN[0]}")
        self.server.wait_for_answer(session, "Warm.", timeout_s=60.0)

    def play(self, turn: Turn) -> None:
        """Play one turn.

        Raises:
            ViolationError: with what was wrong.
        """
        for model, replies in turn.script():
            self.provider.script(model, *replies)
        self._nothing_new("between the turns")
        if turn.opens_session or not self._session:
            self.leave_session()
            self._session = self.server.create_session()
        self._position, self._began = self.server.events.position, time.monotonic()
        self._logged = len(self._plugin_log())
        self._prompts += 1
        self.server.prompt(self._session, f"Turn {turn.number}?", f"fake/{CHAIN[0]}")
        abort = turn.abort
        stopped = abort is not None and abort.moment != "when settled"
        if abort is None or not stopped:
            self._wait_for_the_end(turn)
        if turn.ends_at is None and not stopped:
            # The host goes on asking the last model, until the person has enough.
            abort = abort or Abort("when settled", 0.0, 1.0)
        if abort is not None:
            self._stop(abort)
            self.seen[f"stopped {abort.moment}"] += 1
        else:
            time.sleep(turn.pause_s)
        self._judge(turn, stopped=stopped)

    def leave_session(self) -> None:
        """Begin the next turn in a new session, whatever became of this one."""
        if self._session:
            self.server.abort(self._session)
            self._left[self._session] = len(self.provider.requests(session=self._session))
        self._session, self._prompts, self._asked = "", 0, 0

    def end(self) -> None:
        """Look at the last session once more.

        Raises:
            ViolationError: if the provider was asked after the last turn was over.
        """
        time.sleep(LAST_LOOK_S)
        self._nothing_new("after the last turn")

    def log(self) -> Iterator[str]:
        """Tell what the provider and the host saw of the turn under way, and what the plugin wrote."""
        for request in self.requests:
            ended = request.last_byte_at or request.disconnected_at
            how = "answered" if request.last_byte_at else "given up" if ended else "open"
            after = "" if ended is None else f" {ended - self._began:.3f}"
            yield f"  provider {request.arrived_at - self._began:7.3f} {request.model}: {how}{after}"
        for event in self.server.events.since(self._position):
            if session_of(event) == self._session or toast_of(event):
                yield f"  host     {_token(event)}"
        yield from (f"  plugin   {line}" for line in self._plugin_log()[self._logged :])

    @property
    def requests(self) -> list[Request]:
        """The requests of the turn under way."""
        return self.provider.requests(session=self._session)[self._asked :]

    def _plugin_log(self) -> list[str]:
        file = self.server.home.plugin_log_file
        return file.read_text().splitlines() if file.exists() else []

    def _nothing_new(self, when: str) -> None:
        if self._session and (new := self.requests):
            raise ViolationError(f"{[request.model for request in new]} asked {when}")
        for session, count in self._left.items():
            new = self.provider.requests(session=session)[count:]
            if new:
                self._left[session] += len(new)
                asked = [f"{it.model} {time.monotonic() - it.arrived_at:.1f} s ago" for it in new]
                raise ViolationError(f"asked in session {session}, left before: {', '.join(asked)}")

    def _wait_for_the_end(self, turn: Turn) -> None:
        events, session, since = self.server.events, self._session, self._position
        try:
            if turn.ends_at is None:
                events.wait_for_toast("error", since=since)
            elif turn.is_answered:
                self.server.wait_for_answer(session, turn.answer, since=since)
            else:
                events.wait_for(lambda event: _is_failed_answer(event, session), since=since)
        except AssertionError:
            raise ViolationError("the turn did not end as it should") from None
        self.seen["exhausted" if turn.ends_at is None else "ended"] += 1

    def _stop(self, abort: Abort) -> None:
        """Stop the session at its moment, and watch that nothing is sent."""
        session, since = self._session, self._position
        reached = {
            "any time": _is_busy,
            "at the first sign": _is_sign,
            "while streaming": _is_first_word,
        }.get(abort.moment)
        if reached is not None:
            try:
                self.server.events.wait_for(
                    lambda event: session_of(event) == session and reached(event),
                    since=since,
                    timeout_s=MOMENT_LIMIT_S,
                )
            except AssertionError:
                raise ViolationError(f"the moment to stop never came: {abort.moment}") from None
        time.sleep(abort.after_s)
        self.server.abort(session)
        stopped_at = time.monotonic()
        time.sleep(abort.watch_s)
        late = [request for request in self.requests if request.arrived_at > stopped_at]
        busy = self.server.is_busy(session)
        if len(late) == 1 and late[0].arrived_at - stopped_at < CROSSING_S and _is_over(late[0]) and not busy:
            self.seen["crossed"] += 1
        elif late:
            told = [f"{it.model} after {1000 * (it.arrived_at - stopped_at):.0f} ms" for it in late]
            raise ViolationError(f"asked after the person's stop was answered: {', '.join(told)}")
        if busy:
            raise ViolationError("the session is still busy after the person's stop")

    def _judge(self, turn: Turn, *, stopped: bool) -> None:
        requests = self.requests
        complaints = list(turn.complaints(requests, stopped=stopped))
        errors = [toast for toast in self.server.events.toasts(self._position) if toast["variant"] == "error"]
        said = len(errors)
        if said != (turn.ends_at is None) and not stopped:
            complaints.append(f"{said} error toasts")
        users = [it for it in self.server.messages(self._session) if it["info"]["role"] == "user"]
        if len(users) != self._prompts:
            complaints.append(f"{len(users)} messages of the user's after {self._prompts} prompts")
        if complaints:
            raise ViolationError("; ".join(complaints))
        self._asked += len(requests)
        self.seen["requests"] += len(requests)
        self.seen["switches"] += len({request.model for request in requests}) - 1 if requests else 0


class Marks:
    """What the Python end uses at some points of the soak."""

    def __init__(self, server: OpenCodeServer) -> None:
        child = server.python_child()
        assert child is not None, "the plugin does not run"
        self._server = server
        self._child = child
        self._taken: list[tuple[int, int]] = []

    def take(self, turns: int) -> None:
        """Look at both processes and print it.

        Raises:
            ViolationError: if the Python end was restarted.
        """
        if self._server.python_child() != self._child:
            raise ViolationError("the Python end has died")
        self._taken.append((resident_bytes(self._child), open_handles(self._child)))
        memory, handles = self._taken[-1]
        host = self._server.pid
        print(
            f"after {turns:>4} turns: Python {memory / 1e6:.1f} MB, {handles} handles; "
            f"OpenCode {resident_bytes(host) / 1e6:.0f} MB, {open_handles(host)} handles",
            flush=True,
        )

    def growth(self) -> Iterator[str]:
        """Say what grew since the first mark."""
        (first_memory, first_handles), (memory, handles) = self._taken[0], self._taken[-1]
        if memory - first_memory > GROWTH_BYTES:
            yield f"the Python end grew by {(memory - first_memory) / 1e6:.1f} MB"
        if handles - first_handles > GROWTH_HANDLES:
            yield f"the Python end holds {handles - first_handles} handles more"


def soak(server: OpenCodeServer, provider: ScriptedProvider, turns: int, seed: int) -> int:
    """Play the turns of a seed, print what is wrong at once, and return how often something was."""
    violations = 0
    play, marks = Soak(server, provider), Marks(server)
    play.warm_up()
    every = max(1, turns // MARKS)
    for turn in draw(seed, turns):
        try:
            play.play(turn)
            if (turn.number + 1) % every == 0:
                marks.take(turn.number + 1)
            if turn.number + 1 == turns:
                play.end()
        except ViolationError as wrong:
            violations += 1
            print(f"VIOLATION in turn {turn.number} of seed {seed}: {wrong}", turn, sep="\n  ")
            print(*play.log(), sep="\n", flush=True)
            if violations == MOST_VIOLATIONS:
                break
            play.leave_session()
    for growth in marks.growth():
        violations += 1
        print(f"VIOLATION: {growth}")
    print(", ".join(f"{name} {count}" for name, count in sorted(play.seen.items())))
    return violations


def main() -> int:
    """Soak and return 1 if anything was wrong."""
    turns = int(sys.argv[1]) if len(sys.argv) > 1 else 300
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else 1  # noqa: PLR2004 -- the second argument
    print(f"load before: {os.getloadavg()} on {os.cpu_count()} cores")
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as root, ScriptedProvider() as provider:
        home = home_with_ours(Path(root), provider, MODELS, SETTINGS)
        with OpenCodeServer(opencode(), home) as server:
            violations = soak(server, provider, turns, seed)
    print(f"{turns} turns of seed {seed} in {time.monotonic() - began:.0f} s: {violations} violations")
    print(f"load after:  {os.getloadavg()}")
    return int(violations > 0)


def _is_busy(event: Raw) -> bool:
    # Before the run has begun the host forgets a stop, whatever plugin there is.
    return _status(event) == "busy"


def _status(event: Raw) -> str | None:
    status: str | None = event["properties"].get("status", {}).get("type")
    return status if event["type"] == "session.status" else None


def _is_sign(event: Raw) -> bool:
    return event["type"] == "session.error" or _status(event) == "retry"


def _is_first_word(event: Raw) -> bool:
    return event["type"] == "message.part.delta" and "First " in event["properties"]["delta"]


def _is_over(request: Request) -> bool:
    return request.disconnected_at is not None or request.last_byte_at is not None


def _is_failed_answer(event: Raw, session: str) -> bool:
    info = event["properties"].get("info", {})
    return event["type"] == "message.updated" and "error" in info and session_of(event) == session


def _token(event: Raw) -> str:
    """Write an event in one line, without any text of the user's."""
    properties = event["properties"]
    info, part, status = (properties.get(name, {}) for name in ("info", "part", "status"))
    told = {
        "role": info.get("role"),
        "id": info.get("id") or properties.get("messageID") or part.get("messageID"),
        "model": info.get("modelID") or info.get("model", {}).get("modelID"),
        "finish": info.get("finish"),
        "done": "completed" in info.get("time", {}) or None,
        "error": (info.get("error") or properties.get("error") or {}).get("name"),
        "part": part.get("type"),
        "status": status.get("type"),
        "toast": properties.get("variant") and properties.get("message"),
    }
    return " ".join([event["type"], *(f"{name}={value}" for name, value in told.items() if value)])


if __name__ == "__main__":
    sys.exit(main())
