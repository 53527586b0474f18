"""What a checkpoint costs in a short and in a long session, and how long a prompt's acceptance takes.

A checkpoint is a tool's result: it has to be on stable storage before the turn goes on. Beside it, in turns,
stands what it replaces: the session as one JSON file, written anew, synced and renamed. Everything runs on
the disk of the temporary folder. Run it from the repository as ``python -m bench.checkpoint``.
"""

import asyncio
import json
import os
import statistics
import tempfile
import time
from collections.abc import Awaitable
from pathlib import Path
from typing import Any, Final

import anyio

from fallback_plugin.agent.dispatch import Dispatcher
from fallback_plugin.agent.journal import Defaults, StoredRuns, StoredSessions, StoredTurn
from fallback_plugin.agent.protocols import Steered
from fallback_plugin.agent.records import Run, UserPrompt
from fallback_plugin.agent.store import Store, Transaction, messages, parts
from fallback_plugin.model_ref import ModelRef

LENGTHS: Final = (10, 1_000, 10_000)
ROUNDS: Final = 40
ACCEPTS: Final = 200
TEXT: Final = "The quick brown fox jumps over the lazy dog. " * 80
"""3.6 KB a message, as in the sessions that were measured for the contract."""

FLAT: Final = 2.0
"""At most so many times slower in the longest session than in the shortest."""

ACCEPT_BUDGET_S: Final = 0.020


def stored(session_id: str, number: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return a message of a long session and its only part."""
    message_id = f"msg_{number}"
    named = {"id": f"prt_{number}", "messageID": message_id, "sessionID": session_id}
    return {"id": message_id, "sessionID": session_id, "role": "user"}, {
        **named,
        "type": "text",
        "text": TEXT,
    }


def fill(tx: Transaction, session_id: str, length: int) -> None:
    """Write a session's messages down."""
    for number in range(length):
        info, part = stored(session_id, number)
        row = messages.put(tx.rows, session_id, info, run_id=None)
        parts.put(tx.rows, row.key, part, is_open=False)


def tool_result(number: int) -> dict[str, Any]:
    """Return what a checkpoint adds."""
    state = {"status": "completed", "input": {}, "output": "a" * 200, "title": "ls", "metadata": {}}
    named = {"id": f"prt_tool_{number}", "messageID": "msg_answer"}
    return {**named, "type": "tool", "tool": "bash", "state": state}


class JsonSession:
    """A session as one file."""

    def __init__(self, file: Path, length: int) -> None:
        self._file = file
        pairs = (stored("ses", number) for number in range(length))
        self._messages: list[Any] = [{"info": info, "parts": [part]} for info, part in pairs]

    def checkpoint(self, number: int) -> None:
        """Add a part and write everything anew."""
        self._messages.append({"parts": [tool_result(number)]})
        unfinished = self._file.with_suffix(".tmp")
        with unfinished.open("w") as file:
            json.dump(self._messages, file)
            file.flush()
            os.fsync(file.fileno())
        unfinished.replace(self._file)


async def seconds(work: Awaitable[object]) -> float:
    """Return how long something takes."""
    began = time.perf_counter()
    await work
    return time.perf_counter() - began


async def begun(store: Store, length: int) -> tuple[Run, StoredTurn]:
    """Begin a turn in a session of a length."""
    defaults = Defaults(model=lambda: ModelRef("bench", "model"))
    runs, sessions = StoredRuns(store, defaults), StoredSessions(store, defaults)
    session = await sessions.create("/bench")
    await store.write(lambda tx: fill(tx, session.id, length))
    accepted = await runs.accept(session.id, UserPrompt(parts=({"type": "text", "text": "go"},)), 1)
    run = await runs.activate(accepted.run)
    turn = runs.turn(run)
    await turn.put_message({"id": "msg_answer", "role": "assistant", "parentID": run.message_id})
    return run, turn


async def report_checkpoints(folder: Path) -> None:
    """Print the median of a checkpoint for each length, ours and the file's, and what follows from them."""
    medians = []
    for length in LENGTHS:
        store = Store.open(folder / str(length))
        _, turn = await begun(store, length)
        beside = JsonSession(folder / f"{length}.json", length)
        ours, files = [], []
        for number in range(ROUNDS):
            ours.append(await seconds(turn.put_part(tool_result(number))))
            files.append(await seconds(asyncio.to_thread(beside.checkpoint, number)))
        store.close()
        medians.append(statistics.median(ours))
        ratio = statistics.median(files) / medians[-1]
        print(
            f"checkpoint, {length:>6,} messages: store {medians[-1] * 1e3:7.2f} ms, "
            f"JSON file {statistics.median(files) * 1e3:7.2f} ms: {ratio:.1f} times that of the store"
        )
    ratio = medians[-1] / medians[0]
    print(f"checkpoint, {LENGTHS[-1]:,} / {LENGTHS[0]} messages: {ratio:.2f} (flat: below {FLAT:.0f})")


class NoTurns:
    """Turns that are over at once."""

    def __init__(self, runs: StoredRuns) -> None:
        self._runs = runs

    async def prepare(self, run: Run) -> Run:
        """Return the run as it is."""
        return run

    async def run(self, run: Run, steered: Steered) -> None:  # noqa: ARG002 -- the protocol's
        """End the run."""
        await self._runs.turn(run).finish(None, "completed")


async def report_accepts(folder: Path) -> None:
    """Print how long acceptances take that come one by one, each after the end of the one before."""
    store = Store.open(folder / "accepts")
    defaults = Defaults(model=lambda: ModelRef("bench", "model"))
    runs, sessions = StoredRuns(store, defaults), StoredSessions(store, defaults)
    session = await sessions.create("/bench")
    prompt = UserPrompt(parts=({"type": "text", "text": TEXT},))
    dispatcher = Dispatcher(runs, NoTurns(runs))
    taken = []
    async with anyio.create_task_group() as tasks:
        await tasks.start(dispatcher.run)
        for _ in range(ACCEPTS):
            before = time.perf_counter()
            accepted = await dispatcher.accept(session.id, prompt)
            taken.append(time.perf_counter() - before)
            await dispatcher.wait(accepted.run.id)
        await dispatcher.stop()
    store.close()
    *_, p95 = statistics.quantiles(taken, n=20)
    print(
        f"accept, one by one: p50 {statistics.median(taken) * 1e3:.2f} ms, p95 {p95 * 1e3:.2f} ms: "
        f"{p95 / ACCEPT_BUDGET_S:.2f} of the budget ({ACCEPT_BUDGET_S * 1e3:.0f} ms)"
    )


async def measured() -> None:
    """Measure and print everything."""
    with tempfile.TemporaryDirectory() as name:
        await report_checkpoints(Path(name))
        await report_accepts(Path(name))


def main() -> None:
    """Measure and print."""
    print(f"median of {ROUNDS} rounds, load {os.getloadavg()[0]:.1f}")
    asyncio.run(measured())


if __name__ == "__main__":
    main()
