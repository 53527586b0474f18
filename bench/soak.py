"""Many turns in the real OpenCode, with random failures and users who stop at random moments.

Several users play side by side, each in sessions of its own and with a chain of its own. After every turn the
provider's requests and the marks that its commands left are held against what its failures allow; after every
stop nothing may arrive until the next prompt; the Python end may not grow. It ends by itself, with 1 if
anything was wrong, and then with that turn's log.

Run it from the repository as ``python -m bench.soak [turns] [seed] [players] [busy cores] [--tools]``; a seed
gives the same turns again. With ``--tools`` every turn's first model fails after a command has left its mark.
"""

import os
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from bench.process import open_handles, resident_bytes
from bench.real_host import home_with_ours, opencode
from bench.soak_plan import TURNS_A_SESSION, Abort, Turn, chain_of, draw
from tests.loopback.busy_cores import busy_cores
from tests.loopback.event_log import Raw, session_of, toast_of
from tests.loopback.opencode_server import OpenCodeServer
from tests.loopback.provider import Request, ScriptedProvider
from tests.loopback.reply import stream
from tests.loopback.stop_trial import GRACE_S

MARKS: Final = 6
GROWTH_BYTES: Final = 4_000_000
"""What the Python end may grow by after the first mark."""
GROWTH_HANDLES: Final = 2
MOST_VIOLATIONS: Final = 10
MOMENT_LIMIT_S: Final = 20.0
LAST_LOOK_S: Final = 4.5
# Nothing cools, so that every turn begins with the primary; the clocks are short, so that hangs are as well.
SETTINGS: Final = """
[fallback]
cooldown = 0
first_token_timeout = "8s"
stall_timeout = "3s"
fallback_models = []
"""


class ViolationError(AssertionError):
    """Something that must not happen, happened."""


class Soak:
    """Plays the turns of one user, one after the other, eight or so a session."""

    def __init__(self, server: OpenCodeServer, provider: ScriptedProvider, player: int) -> None:
        self.player = player
        self.played = 0
        self._marks = server.home.directory.parent / f"marks-of-{player}"
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
        primary = chain_of(self.player)[0]
        self.provider.script(primary, stream("Warm."))
        session = self.server.create_session()
        self.server.prompt(session, "Warm up.", _ref(primary), agent=_agent(self.player))
        self.server.wait_for_answer(session, "Warm.", timeout_s=60.0)

    def play(self, turn: Turn) -> None:
        """Play one turn.

        Raises:
            ViolationError: with what was wrong.
        """
        self._marks.write_text("")
        for model, replies in turn.script(self._marks):
            self.provider.script(model, *replies)
        self._nothing_new("between the turns")
        self.played += 1
        if self.played % TURNS_A_SESSION == 0 or not self._session:
            self.leave_session()
            self._session = self.server.create_session()
        self._position, self._began = self.server.events.position, time.monotonic()
        self._logged = len(self._plugin_log())
        self._prompts += 1
        self.server.prompt(self._session, turn.question, _ref(turn.chain[0]), agent=_agent(self.player))
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
                events.wait_for(lambda event: _is_error_toast(event, turn), since=since)
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
        late = [request for request in self.requests if request.arrived_at > stopped_at + GRACE_S]
        busy = self.server.is_busy(session)
        if late:
            told = [f"{it.model} after {1000 * (it.arrived_at - stopped_at):.0f} ms" for it in late]
            raise ViolationError(f"asked after the user's stop was answered: {', '.join(told)}")
        if busy:
            raise ViolationError("the session is still busy after the person's stop")

    def _judge(self, turn: Turn, *, stopped: bool) -> None:
        requests = self.requests
        marks = self._marks.read_text().split()
        complaints = list(turn.complaints(requests, marks, stopped=stopped))
        self.seen["commands"] += len(marks)
        said = sum(_is_error_toast(event, turn) for event in self.server.events.since(self._position))
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


class Table:
    """The players of a soak, the marks that are taken meanwhile, and how often something was wrong."""

    def __init__(self, server: OpenCodeServer, provider: ScriptedProvider, players: int) -> None:
        self.players = [Soak(server, provider, player) for player in range(players)]
        self.violations = 0
        self._marks = Marks(server)
        self._played = 0
        self._one_at_a_time = threading.Lock()

    def soak(self, turns: Sequence[Turn], seed: int) -> None:
        """Play the turns, print what is wrong at once, and at the end what was seen."""
        for player in self.players[:1]:
            player.warm_up()
        every = max(1, len(turns) // MARKS)
        threads = [
            threading.Thread(target=self._play, args=(player, turns, seed, every)) for player in self.players
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for growth in self._marks.growth():
            self.violations += 1
            print(f"VIOLATION: {growth}")
        seen = sum((player.seen for player in self.players), Counter[str]())
        print(", ".join(f"{name} {count}" for name, count in sorted(seen.items())))

    def _play(self, player: Soak, turns: Sequence[Turn], seed: int, every: int) -> None:
        mine = [turn for turn in turns if turn.player == player.player]
        for turn in mine:
            if self.violations >= MOST_VIOLATIONS:
                return
            try:
                player.play(turn)
                if turn is mine[-1]:
                    player.end()
                self._count(every)
            except Exception as wrong:  # noqa: BLE001 -- whatever it was, the others play on
                self._complain(player, turn, seed, wrong)

    def _count(self, every: int) -> None:
        with self._one_at_a_time:
            self._played += 1
            if self._played % every == 0:
                self._marks.take(self._played)

    def _complain(self, player: Soak, turn: Turn, seed: int, wrong: Exception) -> None:
        with self._one_at_a_time:
            self.violations += 1
            print(f"VIOLATION in turn {turn.number} of seed {seed}: {wrong!r}", turn, sep="\n  ")
            print(*player.log(), sep="\n", flush=True)
        player.leave_session()


def main() -> int:
    """Soak and return 1 if anything was wrong."""
    after_tools = "--tools" in sys.argv
    numbers = [int(given) for given in sys.argv[1:] if given != "--tools"]
    turns, seed, players, busy = numbers + [300, 1, 4, 0][len(numbers) :]
    print(f"load before: {os.getloadavg()} on {os.cpu_count()} cores")
    began = time.monotonic()
    chains = [chain_of(player) for player in range(players)]
    settings = SETTINGS + "".join(map(_own_chain, range(players)))
    models = {_provider(model): [model] for chain in chains for model in chain}
    config = {"agent": {_agent(player): {"mode": "primary"} for player in range(players)}}
    with tempfile.TemporaryDirectory() as root, ScriptedProvider() as provider:
        home = home_with_ours(Path(root), provider, models, settings, config)
        with OpenCodeServer(opencode(), home) as server, busy_cores(busy):
            table = Table(server, provider, players)
            table.soak(list(draw(seed, turns, players, after_tools=after_tools)), seed)
    print(
        f"{turns} turns of seed {seed} by {players} players beside {busy} busy cores"
        f" in {time.monotonic() - began:.0f} s: {table.violations} violations"
    )
    print(f"load after:  {os.getloadavg()}")
    return int(table.violations > 0)


def _agent(player: int) -> str:
    return f"player-{player}"


def _own_chain(player: int) -> str:
    fallbacks = ", ".join(f'"{_ref(model)}"' for model in chain_of(player)[1:])
    return f"[agents.{_agent(player)}]\nfallback_models = [{fallbacks}]\n"


def _provider(model: str) -> str:
    return f"home-of-{model}"


def _ref(model: str) -> str:
    return f"{_provider(model)}/{model}"


def _is_error_toast(event: Raw, turn: Turn) -> bool:
    toast = toast_of(event)
    return toast is not None and toast["variant"] == "error" and turn.chain[0] in toast["message"]


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
