"""Random schedules: what people, plugins and providers do to a dispatcher, and what must be true after it."""

import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from random import Random
from typing import Final, Literal, TypeAlias

import anyio
import anyio.lowlevel

from fallback_plugin.agent.dispatch.lane import Cancelled, CancelMode
from fallback_plugin.agent.protocols import Steered
from fallback_plugin.agent.records import Delivery, Run
from fallback_plugin.errors import AgentError, StoreError
from tests.agent.dispatch.recording_journal import RecordingJournal
from tests.agent.dispatch.scripted_turns import Stuck, answer, breaks, closing, fails, forgets_to_end
from tests.agent.dispatch.stage import Stage
from tests.agent.virtual_time import run_in_virtual_time

SESSIONS: Final = ("s", "t")
Word: TypeAlias = Literal[
    "accept",
    "steer",
    "all",
    "current",
    "queue",
    "undo",
    "release",
    "empty",
    "wait",
    "hold",
    "send",
    "discard",
    "fill",
    "room",
]


def name_of(session_id: str) -> str:
    """Return the first id of a session: those after it begin with it."""
    return session_id.partition(".")[0]


@dataclass(frozen=True, slots=True)
class Step:
    """One thing that happens, ``after`` so many turns of the event loop.

    Whoever does it knows the session by any of the ids that it has had.
    """

    word: Word
    session_id: str
    after: int


@dataclass(slots=True)
class Performance:
    """Plays a schedule and keeps what it shows.

    ``must_be_cancelled`` holds the sequence numbers that a cancel found accepted or queued; ``cancels``,
    ``accepts`` and, of held prompts, ``sends`` say at which step of the schedule something came.
    """

    seed: int
    stop_at_end: bool = False
    is_full_to_the_end: bool = False
    stage: Stage = field(default_factory=Stage)
    must_be_cancelled: set[int] = field(default_factory=set)
    cancels: dict[str, list[int]] = field(default_factory=lambda: {name: [] for name in SESSIONS})
    accepts: dict[str, int] = field(default_factory=dict)
    ids: dict[str, list[str]] = field(default_factory=lambda: {name: [name] for name in SESSIONS})
    held: list[Run] = field(default_factory=list)
    sends: dict[str, int] = field(default_factory=dict)
    stuck: list[Stuck] = field(default_factory=list)
    now: int = 0
    random: Random = field(init=False)

    def __post_init__(self) -> None:
        self.random = Random(self.seed)  # noqa: S311 -- a schedule, no secret
        journal = self.stage.journal
        journal.sessions = set(SESSIONS)
        journal.pause = journal.pause_reading = self.a_while
        journal.fails = lambda name: name in ("accept", "fold", "queue") and self.random.random() < 0.1

    def play(self, steps: list[Step]) -> None:
        async def performance() -> None:
            async with anyio.create_task_group() as host:
                await host.start(self.stage.dispatcher.run)
                async with anyio.create_task_group() as people:
                    for self.now, step in enumerate(steps):
                        for _ in range(step.after):
                            await anyio.lowlevel.checkpoint()
                        people.start_soon(self.do, step)
                    await anyio.lowlevel.checkpoint()
                    if self.is_full_to_the_end:
                        await anyio.sleep(50)
                    self.stage.journal.is_full = False
                    if self.stop_at_end:
                        await self.a_while()
                        people.start_soon(self.stage.dispatcher.stop)
                await anyio.sleep(1_000)
                for stuck in self.stuck:
                    stuck.gate.set()
                await anyio.sleep(1_000)
                await self.stage.dispatcher.stop()

        logging.disable()  # what fails here fails on purpose
        try:
            run_in_virtual_time(performance)
        finally:
            logging.disable(logging.NOTSET)

    async def a_while(self) -> None:
        for _ in range(self.random.randrange(4)):
            await anyio.lowlevel.checkpoint()

    async def do(self, step: Step) -> None:
        with suppress(AgentError):
            await getattr(self, step.word)(self.random.choice(self.ids[step.session_id]))

    async def accept(self, session_id: str, delivery: Delivery = "queue") -> None:
        await self.stage.accept(self.a_text(session_id), session_id, delivery=delivery)

    def a_text(self, session_id: str) -> str:
        """Return words that no prompt had yet, with what their turn will do."""
        text = f"{session_id}{len(self.accepts)}"
        self.accepts[text] = self.now
        self.stage.turns.behaviours[text] = self.random.choice(self.behaviours())
        return text

    async def hold(self, session_id: str) -> None:
        """Let there be a prompt that a restart has held back."""
        self.held.append(self.stage.journal.hold(self.a_text(session_id), session_id))

    async def send(self, _session_id: str) -> None:
        if self.held:
            run = self.random.choice(self.held)
            self.sends.setdefault(run.prompt.text, self.now)
            await self.stage.dispatcher.send(run.session_id, run.id)

    async def discard(self, session_id: str) -> None:
        """Discard what is held or waits."""
        if found := [*self.held, *self.stage.dispatcher.queued(session_id)]:
            run = self.random.choice(found)
            await self.stage.dispatcher.discard(run.session_id, run.id)

    async def steer(self, session_id: str) -> None:
        await self.accept(session_id, "steer")

    async def all(self, session_id: str) -> None:
        await self.cancel(session_id, "all")

    async def current(self, session_id: str) -> None:
        await self.cancel(session_id, "current")

    async def queue(self, session_id: str) -> None:
        await self.cancel(session_id, "queue")

    async def cancel(self, session_id: str, mode: CancelMode) -> None:
        self.cancels[name_of(session_id)].append(self.now)
        # A person's cancel counts under each id: what waits is found by the newest one.
        lane = self.stage.dispatcher._lanes.find(self.ids[name_of(session_id)][-1])
        if lane is None:
            assert await self.stage.dispatcher.cancel(session_id, mode) == Cancelled(), "I5"
            return
        if mode != "current":
            self.must_be_cancelled |= {waiting.run.sequence for waiting in lane.queue}
        if mode == "all":
            self.must_be_cancelled |= set(lane._reservations)
        await self.stage.dispatcher.cancel(session_id, mode)

    async def release(self, session_id: str) -> None:
        self.cancels[name_of(session_id)].append(self.now)
        self.stage.dispatcher.release(session_id)

    async def empty(self, session_id: str) -> None:
        try:
            await self.deletion(session_id)
        except StoreError:
            self.cancels[name_of(session_id)].append(self.now)  # what was there is cancelled all the same
            raise

    async def deletion(self, session_id: str) -> None:
        async with self.stage.dispatcher.isolation.emptied(session_id):
            self.cancels[name_of(session_id)].append(self.now)
            status = self.stage.dispatcher.status(session_id)
            assert not status.is_busy
            await self.a_while()
            assert self.stage.dispatcher.status(session_id) == status

    async def fill(self, _session_id: str) -> None:
        """Let nothing be written from now on."""
        self.stage.journal.is_full = True

    async def room(self, _session_id: str) -> None:
        """Let everything be written again."""
        self.stage.journal.is_full = False

    async def undo(self, session_id: str) -> None:
        async with self.stage.dispatcher.isolation.exclusive(session_id, "undo"):
            await self.a_while()

    async def wait(self, _session_id: str) -> None:
        with anyio.move_on_after(500):
            await self.stage.dispatcher.wait(f"run_{self.random.randrange(1, 10)}")

    def behaviours(self) -> list[Callable[[RecordingJournal, Run, Steered], Awaitable[None]]]:
        stuck = Stuck()
        self.stuck.append(stuck)
        return [
            answer,
            self.steps,
            self.steps,
            self.compacts,
            self.compacts,
            self.streams,
            self.streams,
            fails,
            breaks,
            forgets_to_end,
            stuck,
        ]

    async def streams(self, journal: RecordingJournal, run: Run, steered: Steered) -> None:
        """Stream until cancelled, or for a minute."""
        await closing(journal, run, anyio.sleep(60))
        await answer(journal, run, steered)

    async def compacts(self, journal: RecordingJournal, run: Run, steered: Steered) -> None:
        """Go on under a new id, as a turn does whose history was shortened."""
        ids = self.ids[name_of(run.session_id)]
        new_id = f"{name_of(run.session_id)}.{run.id}"

        async def work() -> None:
            await self.a_while()
            await self.stage.dispatcher.rotate(run.session_id, new_id)
            await journal.continue_in(run, new_id)
            ids.append(new_id)

        await closing(journal, run, work())
        await self.steps(journal, run, steered)

    async def steps(self, journal: RecordingJournal, run: Run, steered: Steered) -> None:
        """Take steering in between steps."""

        async def work() -> None:
            for _ in range(3):
                await self.a_while()
                await steered()
                await journal.write(run, "a step")

        await closing(journal, run, work())
        await answer(journal, run, steered)

    def check(self) -> None:
        """Assert the invariants of A.9, by their numbers."""
        self.stage.assert_nothing_left()  # I6
        for name, ids in self.ids.items():
            self.check_order(name)
            for session_id in ids:
                self.check_status(session_id)
        journal = self.stage.journal
        for run in journal.runs.values():
            text = run.prompt.text
            ends = [event for event in journal.events if event.kind == "ended" and event.run_id == run.id]
            if run.state == "held":
                assert not ends
                continue
            if run.state != "ended":
                assert self.stop_at_end, f"I2: {text} has no end"
                assert run.state != "active", f"I2: {text} was begun and has no end"
                assert not ends
                continue
            assert len(ends) == 1, f"I2: {text} ended {len(ends)} times"
            if run.outcome == "discarded":
                assert not any(one.text == text for one in journal.messages), f"{text} left a trace"
                continue
            said = [one for one in journal.messages if one.role == "user" and one.text == text]
            assert len(said) == 1, f"I7: {text} is in the history {len(said)} times"
            if run.sequence in self.must_be_cancelled:
                assert run.outcome in ("cancelled", "folded"), f"I3: {text} is {run.outcome}"
            if run.outcome == "cancelled" and not self.stop_at_end:
                cancels = self.cancels[name_of(run.session_id)]
                accepted = self.sends.get(text, self.accepts[text])
                assert any(at >= accepted for at in cancels), f"I4: nobody cancelled {text}"

    def check_order(self, session_id: str) -> None:
        """Assert I1 and I8: a run begins after the one before it has ended."""
        active: str | None = None
        begun = {event.run_id for event in self.stage.journal.events if event.kind == "active"}
        for event in self.stage.journal.events:
            if name_of(event.session_id) != session_id or event.run_id not in begun:
                continue
            if event.kind == "active":
                assert active is None, f"I1: {event.run_id} began while {active} was active"
                active = event.run_id
            elif event.kind == "ended":
                assert active == event.run_id, f"I8: {event.run_id} ended while {active} was active"
                active = None

    def check_status(self, session_id: str) -> None:
        """Assert that busy and idle alternate, and that idle comes when everything has its end."""
        open_runs: set[str | None] = set()
        told = "idle"
        for event in self.stage.journal.events:
            if name_of(event.session_id) != name_of(session_id):
                continue
            if event.kind == "accepted":
                open_runs.add(event.run_id)
            elif event.kind == "ended":
                open_runs.discard(event.run_id)
            elif event.session_id == session_id and event.word is not None:
                assert event.word != told, f"{event.word} twice"
                told = event.word
                if told == "idle" and not self.stop_at_end:
                    assert not open_runs, f"idle before the end of {open_runs}"
        assert told == "idle"
