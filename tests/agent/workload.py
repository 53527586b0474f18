"""Turns whose every acknowledgement is noted, and the check that a killed host kept all it acknowledged.

As a program, it works in a folder until it is killed, and prints each acknowledgement as a line of JSON.
"""

import asyncio
import json
import sys
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Final, TypeAlias

from fallback_plugin.agent.journal import StoredTurn
from fallback_plugin.agent.records import Run
from fallback_plugin.agent.recovery import recover
from fallback_plugin.agent.store import Rows, events, messages, runs, sessions
from tests.agent.persisted import Host, answer_info, completed, in_file, text_part, tool_part

Acknowledgement: TypeAlias = dict[str, Any]
Acknowledge: TypeAlias = Callable[[Acknowledgement], None]

WORDS: Final = ("Once ", "upon ", "a time ", "there was ", "a host.")


async def work(host: Host, turns: int, acknowledge: Acknowledge) -> None:
    """Begin a session and carry turns out in it; every third prompt is cancelled before it begins."""
    session = await host.session()
    acknowledge({"did": "session", "session": session.id})
    for number in range(turns):
        run = await host.accepted(session.id, f"prompt {number}", message_id=f"msg_{session.id}_{number}")
        acknowledge({"did": "accept", "run": run.id, "session": session.id, "text": f"prompt {number}"})
        if number % 3 == 1:
            await host.runs.queue(run)
            await host.runs.cancel([run])
            acknowledge({"did": "end", "run": run.id, "outcome": "cancelled"})
            continue
        run = await host.runs.activate(run)
        acknowledge({"did": "activate", "run": run.id})
        await _answer(host.runs.turn(run), run, acknowledge)


async def _answer(turn: StoredTurn, run: Run, acknowledge: Acknowledge) -> None:
    info = answer_info(run, f"{run.message_id}_answer")
    await turn.put_message(info)
    await turn.put_part(text_part(info["id"], f"{run.id}_text"), durable=False)
    for count, word in enumerate(WORDS, 1):
        await turn.append(f"{run.id}_text", "text", word)
        if (job := turn.flush()) is not None:
            await job
        acknowledge({"did": "text", "run": run.id, "text": "".join(WORDS[:count])})
    for status in ("running", "completed"):
        await turn.put_part(tool_part(info["id"], f"{run.id}_tool", status))
        acknowledge({"did": "tool", "run": run.id, "status": status})
    await turn.finish(completed(info), "completed")
    acknowledge({"did": "end", "run": run.id, "outcome": "completed"})


async def check(host: Host, acknowledged: Iterable[Acknowledgement]) -> None:
    """Recover, and show that everything acknowledged is there, whole, and ended or held."""
    await recover(host.store, host.defaults)
    assert in_file(host.folder, "PRAGMA integrity_check") == [("ok",)]
    assert in_file(host.folder, "PRAGMA foreign_key_check") == []
    await host.store.read(_check_whole)
    await host.store.read(lambda rows: _check_kept(rows, acknowledged))


def _check_whole(rows: Rows) -> None:
    log = events.after(rows, 0, limit=100_000).events
    assert [event.sequence for event in log] == list(range(1, len(log) + 1))
    ends = Counter(event.run_id for event in log if event.type == "run.ended")
    stored = runs.in_states(rows, ("accepted", "queued", "active", "held", "ended"))
    assert {run.state for run in stored} <= {"held", "ended"}
    assert ends == Counter(run.id for run in stored if run.state == "ended")
    for run in stored:
        own = messages.of_run(rows, run.id, run.session_id)
        assert bool(own) == (run.state == "ended")
        for row in own:
            entry = messages.one(rows, run.session_id, row.id)
            if row.is_user:
                assert [part["text"] for part in entry["parts"]] == [run.prompt.text]
            else:
                assert "completed" in entry["info"]["time"]
    assert rows.execute("SELECT count(*) FROM part WHERE open").fetchone() == (0,)
    assert rows.execute("SELECT count(*) FROM part_chunk").fetchone() == (0,)


def _check_kept(rows: Rows, acknowledged: Iterable[Acknowledgement]) -> None:
    for ack in acknowledged:
        _check_one(rows, ack)


def _check_one(rows: Rows, ack: Acknowledgement) -> None:
    if ack["did"] == "session":
        sessions.get(rows, ack["session"])
        return
    run = runs.get(rows, ack["run"])
    parts = {
        part["id"]: part
        for row in messages.of_run(rows, run.id, run.session_id)
        for part in messages.one(rows, run.session_id, row.id)["parts"]
    }
    match ack["did"]:
        case "accept":
            assert run.prompt.text == ack["text"]
        case "activate":
            assert run.state == "ended"
        case "text":
            assert parts[f"{run.id}_text"]["text"].startswith(ack["text"])
            assert "".join(WORDS).startswith(parts[f"{run.id}_text"]["text"])
        case "tool":
            status = parts[f"{run.id}_tool"]["state"]["status"]
            assert status in ({"completed"} if ack["status"] == "completed" else {"completed", "error"})
        case "end":
            assert run.outcome == ack["outcome"]


async def _work_until_killed(folder: Path, sessions: int) -> None:
    host = Host(folder)
    await asyncio.gather(*(work(host, 1_000_000, _print) for _ in range(sessions)))


def _print(ack: Acknowledgement) -> None:
    sys.stdout.write(json.dumps(ack) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    asyncio.run(_work_until_killed(Path(sys.argv[1]), int(sys.argv[2])))
