"""A host's persistence on a folder, with a clock and names that a test can foresee."""

import itertools
import shutil
import sqlite3
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, Final

from fallback_plugin.agent.journal import Defaults, StoredRuns, StoredSessions, StoredTurn
from fallback_plugin.agent.records import HostEvent, Json, Run, Session, StoredEvent, UserPrompt
from fallback_plugin.agent.store import Store, messages
from fallback_plugin.agent.store.folder import DATABASE
from fallback_plugin.model_ref import ModelRef

MODEL: Final = ModelRef("openai", "gpt-5.1", "high")
OTHER: Final = ModelRef("anthropic", "claude-opus-4-5")
NOW: Final = 1_800_000_000.0


class Clock:
    """Time as a test sets it."""

    def __init__(self) -> None:
        self.now = NOW

    def __call__(self) -> float:
        return self.now


class Names:
    """``ses_1``, ``ses_2``, …: told apart between starts by a prefix."""

    def __init__(self, start: str = "") -> None:
        self._start = start
        self._counts: defaultdict[str, Iterator[int]] = defaultdict(lambda: itertools.count(1))

    def __call__(self, kind: str) -> str:
        return f"{kind}_{self._start}{next(self._counts[kind])}"


class Host:
    """One start of the host on a folder."""

    def __init__(self, folder: Path, clock: Clock | None = None, start: str = "") -> None:
        self.folder: Final = folder
        self.clock: Final = clock or Clock()
        self.store: Final = Store.open(folder, clock=self.clock)
        self.defaults: Final = Defaults(model=lambda: MODEL, new_id=Names(start))
        self.runs: Final = StoredRuns(self.store, self.defaults)
        self.sessions: Final = StoredSessions(self.store, self.defaults)
        self.published: Final[list[HostEvent]] = []
        self.store.listen(self.published.extend)
        self._sequence = itertools.count(1)

    async def session(self, **given: Any) -> Session:
        return await self.sessions.create("/project", **given)

    async def accepted(self, session_id: str, text: str = "hello", **given: Any) -> Run:
        accepted = await self.runs.accept(session_id, prompt(text, **given), next(self._sequence))
        return accepted.run

    async def active(self, session_id: str, text: str = "hello", **given: Any) -> Run:
        return await self.runs.activate(await self.accepted(session_id, text, **given))

    async def turn(self, session_id: str, text: str = "hello", **given: Any) -> tuple[Run, StoredTurn]:
        run = await self.active(session_id, text, **given)
        return run, self.runs.turn(run)

    async def answered(self, session_id: str, text: str = "hello", answer: str = "hi", **given: Any) -> Run:
        """Carry a whole turn out."""
        run, turn = await self.turn(session_id, text, **given)
        info = answer_info(run, f"{run.message_id}-answer")
        await turn.put_message(info)
        await turn.put_part(text_part(info["id"], "t", answer, end=True))
        await turn.finish(completed(info), "completed")
        return run

    async def history(self, session_id: str) -> Sequence[Json]:
        page = await self.store.read(lambda rows: messages.page(rows, session_id))
        return page.items

    def types(self) -> list[str]:
        return [event.type for event in self.published]

    def told(self, kind: str) -> list[Mapping[str, Any]]:
        return [event.properties for event in self.published if event.type == kind]

    def logged(self) -> list[StoredEvent]:
        return [event for event in self.published if isinstance(event, StoredEvent)]

    def ends(self) -> list[tuple[str, str]]:
        return [(end["runID"], end["outcome"]) for end in self.told("run.ended")]

    def close(self) -> None:
        self.store.close()


def prompt(text: str = "hello", **given: Any) -> UserPrompt:
    return UserPrompt(parts=({"type": "text", "text": text},) if text else (), **given)


def answer_info(run: Run, message_id: str = "msg_a", **given: Any) -> dict[str, Any]:
    return {
        "id": message_id,
        "sessionID": run.session_id,
        "role": "assistant",
        "parentID": run.message_id,
        "providerID": "openai",
        "modelID": "gpt-5.1",
        "agent": "build",
        "mode": "build",
        "time": {"created": 1},
        **given,
    }


def completed(info: Json, **given: Any) -> dict[str, Any]:
    return {**info, "finish": "stop", "time": {**info["time"], "completed": 2}, **given}


def text_part(
    message_id: str, part_id: str = "prt_t", text: str = "", *, end: bool = False
) -> dict[str, Any]:
    time = {"start": 1, "end": 2} if end else {"start": 1}
    return {"id": part_id, "messageID": message_id, "type": "text", "text": text, "time": time}


def tool_part(message_id: str, part_id: str = "prt_c", status: str = "running") -> dict[str, Any]:
    states: Mapping[str, Mapping[str, Any]] = {
        "pending": {"status": "pending", "input": {}, "raw": ""},
        "running": {"status": "running", "input": {"command": "ls"}, "time": {"start": 1}},
        "completed": {
            "status": "completed",
            "input": {"command": "ls"},
            "output": "a",
            "title": "ls",
            "metadata": {},
            "time": {"start": 1, "end": 2},
        },
    }
    return {
        "id": part_id,
        "messageID": message_id,
        "type": "tool",
        "tool": "bash",
        "callID": f"call-{part_id}",
        "state": states[status],
    }


def texts(history: Sequence[Json]) -> list[tuple[str, str]]:
    """Return each message as its role and its words."""
    return [
        (entry["info"]["role"], "".join(part.get("text", "") for part in entry["parts"])) for entry in history
    ]


def in_file(folder: Path, statement: str, *values: object) -> list[Any]:
    """Ask, or change, the database behind the store's back."""
    with closing(sqlite3.connect(folder / DATABASE)) as rows:
        found = rows.execute(statement, values).fetchall()
        rows.commit()
        return found


class Restarts:
    """Starts of the host, each on what the one before would leave if it was killed right now."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._hosts: list[Host] = []

    def first(self) -> Host:
        return self._started(self._folder / "0")

    def after_kill(self, host: Host) -> Host:
        """Start on a copy of the files as they are: what a process that dies leaves in them."""
        folder = self._folder / str(len(self._hosts))
        shutil.copytree(host.folder, folder)
        return self._started(folder, host.clock)

    def close(self) -> None:
        for host in self._hosts:
            host.close()

    def _started(self, folder: Path, clock: Clock | None = None) -> Host:
        host = Host(folder, clock, start=f"{len(self._hosts)}-")
        self._hosts.append(host)
        return host
