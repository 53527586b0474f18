"""Turns that do what a test says, run by run."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TypeAlias

import anyio

from fallback_plugin.agent.protocols import Steered
from fallback_plugin.agent.records import Run
from tests.agent.dispatch.recording_journal import RecordingJournal

Behaviour: TypeAlias = Callable[[RecordingJournal, Run, Steered], Awaitable[None]]


async def answer(journal: RecordingJournal, run: Run, _steered: Steered) -> None:
    """Answer and end."""
    await closing(journal, run, journal.write(run, f"answer to {run.prompt.text}"))
    await journal.finish(run, "completed")


async def closing(journal: RecordingJournal, run: Run, work: Awaitable[None]) -> None:
    """Do something as a turn does: one that is cancelled ends itself, shielded."""
    try:
        await work
    except anyio.get_cancelled_exc_class():
        with anyio.CancelScope(shield=True):
            await journal.finish(run, "cancelled")
        raise


@dataclass(slots=True)
class Held:
    """A turn that streams until it is told to go on."""

    gate: anyio.Event = field(default_factory=anyio.Event)

    async def __call__(self, journal: RecordingJournal, run: Run, steered: Steered) -> None:
        await closing(journal, run, self.gate.wait())
        await answer(journal, run, steered)


@dataclass(slots=True)
class Steps:
    """A turn of several steps, each with a gate before it, that takes in what steers it."""

    gates: list[anyio.Event]
    joined: list[str] = field(default_factory=list)

    async def __call__(self, journal: RecordingJournal, run: Run, steered: Steered) -> None:
        for gate in self.gates:
            await closing(journal, run, gate.wait())
            self.joined += [one.prompt.text for one in await steered()]
        await answer(journal, run, steered)


@dataclass(slots=True)
class Stuck:
    """A turn that no cancel reaches; once let go it writes late."""

    gate: anyio.Event = field(default_factory=anyio.Event)
    late: list[Exception] = field(default_factory=list)

    async def __call__(self, journal: RecordingJournal, run: Run, _steered: Steered) -> None:
        with anyio.CancelScope(shield=True):
            await self.gate.wait()
            try:
                await journal.write(run, "late")
            except Exception as error:
                self.late.append(error)
                raise


async def breaks(_journal: RecordingJournal, _run: Run, _steered: Steered) -> None:
    """Fail as only a mistake of ours does."""
    raise ValueError("a mistake")


async def forgets_to_end(_journal: RecordingJournal, _run: Run, _steered: Steered) -> None:
    """Return without an end."""


async def fails(journal: RecordingJournal, run: Run, _steered: Steered) -> None:
    """End as failed, as a turn whose provider failed does."""
    await journal.finish(run, "failed")


@dataclass(slots=True)
class ScriptedTurns:
    """Runs each turn by the behaviour that its prompt's words have here; others just answer."""

    journal: RecordingJournal
    behaviours: dict[str, Behaviour] = field(default_factory=dict)
    begun: list[str] = field(default_factory=list)
    now: set[str] = field(default_factory=set)
    most: int = 0
    prepare_with: Callable[[Run], Awaitable[Run]] | None = None

    async def prepare(self, run: Run) -> Run:
        return run if self.prepare_with is None else await self.prepare_with(run)

    async def run(self, run: Run, steered: Steered) -> None:
        self.begun.append(run.prompt.text)
        self.now.add(run.id)
        self.most = max(self.most, len(self.now))
        try:
            await self.behaviours.get(run.prompt.text, answer)(self.journal, run, steered)
        finally:
            self.now.discard(run.id)
