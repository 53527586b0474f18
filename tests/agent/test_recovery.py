"""A host that was killed, and the next one: every run ends once, nothing acknowledged is lost."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fallback_plugin.agent.records import Run
from fallback_plugin.agent.recovery import OnRestart, Recovered, recover
from fallback_plugin.agent.store import messages, runs, segments
from fallback_plugin.agent.store.folder import DATABASE
from fallback_plugin.agent.turns.request import request_messages
from tests.agent.persisted import Host, Restarts, answer_info, completed, in_file, text_part, texts, tool_part

pytestmark = pytest.mark.anyio


@pytest.fixture
def restarts(tmp_path: Path) -> Iterator[Restarts]:
    restarts = Restarts(tmp_path)
    yield restarts
    restarts.close()


@pytest.fixture
def killed(restarts: Restarts) -> Host:
    return restarts.first()


async def restarted(
    restarts: Restarts, killed: Host, on_restart: OnRestart = "ask"
) -> tuple[Host, Recovered]:
    host = restarts.after_kill(killed)
    return host, await recover(host.store, host.defaults, on_restart=on_restart)


async def test_nothing_left_is_nothing_done(killed: Host, restarts: Restarts) -> None:
    await killed.answered((await killed.session()).id)

    host, recovered = await restarted(restarts, killed)

    assert recovered == Recovered()
    assert host.published == []


async def waiting(host: Host) -> tuple[Run, Run]:
    session = await host.session()
    accepted, queued = await host.accepted(session.id, "first"), await host.accepted(session.id, "second")
    await host.runs.queue(queued)
    return accepted, queued


async def test_prompts_that_never_began_are_held_for_a_person(killed: Host, restarts: Restarts) -> None:
    accepted, queued = await waiting(killed)

    host, recovered = await restarted(restarts, killed)

    assert [(run.id, run.state, run.prompt.text) for run in recovered.held] == [
        (accepted.id, "held", "first"),
        (queued.id, "held", "second"),
    ]
    assert [told["run"]["state"] for told in host.told("run.updated")] == ["held", "held"]
    assert host.ends() == []


async def test_or_they_are_begun_in_their_order(killed: Host, restarts: Restarts) -> None:
    accepted, queued = await waiting(killed)

    host, recovered = await restarted(restarts, killed, "run")

    assert [run.id for run in recovered.resumed] == [accepted.id, queued.id]
    assert (await host.runs.activate(recovered.resumed[0])).state == "active"


async def test_or_they_are_cancelled_and_kept(killed: Host, restarts: Restarts) -> None:
    accepted, queued = await waiting(killed)

    host, recovered = await restarted(restarts, killed, "cancel")

    assert host.ends() == [(accepted.id, "cancelled"), (queued.id, "cancelled")]
    assert len(recovered.ended) == 2
    shown = texts(await host.history(accepted.session_id))
    assert shown == [("user", "first"), ("assistant", ""), ("user", "second"), ("assistant", "")]


async def test_what_was_held_stays_held(killed: Host, restarts: Restarts) -> None:
    await waiting(killed)
    between, first = await restarted(restarts, killed)

    host, again = await restarted(restarts, between, "run")

    assert again.held == first.held
    assert again.resumed == ()
    assert host.published == []


async def test_report_E12_a_run_that_had_said_nothing_keeps_its_prompt(
    killed: Host, restarts: Restarts
) -> None:
    session = await killed.session()
    run = await killed.active(session.id, "question")

    host, _ = await restarted(restarts, killed)

    _, answer = await host.history(session.id)
    assert texts(await host.history(session.id)) == [("user", "question"), ("assistant", "")]
    assert answer["info"]["finish"] == "interrupted"
    assert answer["info"]["error"]["name"] == "MessageAbortedError"
    assert answer["info"]["parentID"] == run.message_id
    assert host.ends() == [(run.id, "interrupted")]


async def test_report_E9_a_message_that_was_being_written_has_an_end(
    killed: Host, restarts: Restarts
) -> None:
    session = await killed.session()
    run, turn = await killed.turn(session.id)
    await turn.put_message(answer_info(run))
    await turn.put_part(text_part("msg_a"))
    await turn.append("prt_t", "text", "half an ans")
    await turn.flush()  # type: ignore[misc]

    host, _ = await restarted(restarts, killed)

    _, answer = await host.history(session.id)
    assert answer["parts"][0]["text"] == "half an ans"
    assert "end" in answer["parts"][0]["time"]
    assert answer["info"]["finish"] == "interrupted"
    assert "completed" in answer["info"]["time"]
    (end,) = host.told("run.ended")
    assert (end["runID"], end["outcome"], end["text"]) == (run.id, "interrupted", "half an ans")


async def test_report_E3_a_tool_call_has_a_result_written_once(killed: Host, restarts: Restarts) -> None:
    session = await killed.session()
    run, turn = await killed.turn(session.id)
    await turn.put_message(answer_info(run))
    await turn.put_part(tool_part("msg_a", "prt_done", "completed"))
    await turn.put_part(tool_part("msg_a", "prt_ran", "running"))
    await turn.put_part(tool_part("msg_a", "prt_not", "pending"))

    host, _ = await restarted(restarts, killed)

    _, answer = await host.history(session.id)
    done, ran, not_begun = (part["state"] for part in answer["parts"])
    assert done["status"] == "completed"
    assert (ran["status"], ran["input"]) == ("error", {"command": "ls"})
    assert (
        ran["error"]
        == "Interrupted by a restart of the host while it ran: whether it took effect is not known"
    )
    assert not_begun["error"] == "Interrupted by a restart of the host before it ran"
    assert in_file(host.folder, "SELECT count(*) FROM part WHERE open") == [(0,)]


async def test_a_run_between_two_steps_is_interrupted_visibly(killed: Host, restarts: Restarts) -> None:
    session = await killed.session()
    run, turn = await killed.turn(session.id)
    await turn.put_message(completed(answer_info(run, "msg_step"), finish="tool-calls"))
    await turn.put_part(tool_part("msg_step", status="completed"))

    host, _ = await restarted(restarts, killed)

    _, step, marker = await host.history(session.id)
    assert step["info"]["finish"] == "tool-calls"
    assert (marker["info"]["finish"], marker["parts"]) == ("interrupted", [])


async def test_a_stop_that_was_noted_is_what_the_run_ended_by(killed: Host, restarts: Restarts) -> None:
    session = await killed.session()
    run = await killed.active(session.id)
    await killed.runs.note_stop(run)

    host, _ = await restarted(restarts, killed)

    assert host.ends() == [(run.id, "cancelled")]
    _, answer = await host.history(session.id)
    assert "finish" not in answer["info"]


async def test_a_stop_is_final_also_for_a_run_that_had_not_begun(killed: Host, restarts: Restarts) -> None:
    session = await killed.session()
    run = await killed.accepted(session.id)
    await killed.runs.note_stop(run)

    host, recovered = await restarted(restarts, killed)

    assert recovered.held == ()
    assert host.ends() == [(run.id, "cancelled")]


async def test_report_E17_g5_a_run_that_ended_is_not_recovered(killed: Host, restarts: Restarts) -> None:
    """However short before the kill: its end and its bookkeeping are one transaction."""
    session = await killed.session()
    run = await killed.answered(session.id)

    host, recovered = await restarted(restarts, killed)

    assert recovered == Recovered()
    found = await host.store.read(lambda rows: runs.get(rows, run.id))
    assert (found.state, found.outcome, found.writer) == ("ended", "completed", None)


async def test_a_memory_attempt_is_due_again_under_its_name(killed: Host, restarts: Restarts) -> None:
    session = await killed.session()
    run = await killed.active(session.id)
    await killed.runs.turn(run, memory_owner="digest").finish(None, "completed")
    await killed.store.write(
        lambda tx: (
            tx.rows.execute(
                "UPDATE memory_segment SET state = 'in_flight', commit_key = 'ses_1:1-1'"
            ).rowcount
        )
    )

    host, _ = await restarted(restarts, killed)

    (segment,) = (await host.store.read(lambda rows: segments.load(rows, session.id))).segments
    assert (segment.state, segment.commit_key, segment.owner_key) == ("dirty", "ses_1:1-1", "digest")
    another = await host.active(session.id)
    await host.runs.turn(another, memory_owner="digest").finish(None, "completed")
    found = (await host.store.read(lambda rows: segments.load(rows, session.id))).segments
    assert [(one.start, one.end) for one in found] == [(1, 1), (2, 2)]


async def test_report_S9_the_session_is_idle_and_takes_prompts(killed: Host, restarts: Restarts) -> None:
    session = await killed.session()
    await killed.active(session.id)

    host, _ = await restarted(restarts, killed)

    assert host.types()[-3:] == ["run.ended", "session.status", "session.idle"]
    assert (await host.answered(session.id)).state == "active"


async def everything(host: Host) -> list[Any]:
    """Return all rows but those that note the starts."""
    tables = ("session", "message", "part", "part_chunk", "run", "event", "memory_segment")
    return [in_file(host.folder, f"SELECT * FROM {table}") for table in tables]  # noqa: S608 -- constants


@pytest.mark.parametrize("on_restart", ["ask", "run", "cancel"])
async def test_g8_recovery_twice_changes_nothing(
    killed: Host, restarts: Restarts, on_restart: OnRestart
) -> None:
    await waiting(killed)
    session = await killed.session()
    run, turn = await killed.turn(session.id)
    await turn.put_message(answer_info(run))
    await turn.put_part(tool_part("msg_a"))
    host, _ = await restarted(restarts, killed, on_restart)
    before = await everything(host)

    await recover(host.store, host.defaults, on_restart=on_restart)

    assert await everything(host) == before


async def test_g8_a_kill_after_recovery_leaves_nothing_to_recover(killed: Host, restarts: Restarts) -> None:
    await killed.active((await killed.session()).id)
    host, _ = await restarted(restarts, killed)

    again, recovered = await restarted(restarts, host)

    assert recovered == Recovered()
    assert await everything(again) == await everything(host)


async def test_report_E18_what_the_page_shows_is_what_the_model_gets(
    killed: Host, restarts: Restarts
) -> None:
    """One store of messages: a recovered prompt is there once, for both, in every later turn too."""
    session = await killed.session()
    await killed.active(session.id, "before the kill")
    host, _ = await restarted(restarts, killed)

    await host.answered(session.id, "after it")

    shown = texts(await host.history(session.id))
    assert shown == [
        ("user", "before the kill"),
        ("assistant", ""),
        ("user", "after it"),
        ("assistant", "hi"),
    ]
    sent = request_messages(await host.history(session.id), system="", images=False)[1:]
    asked = next(message["content"] for message in sent if message["role"] == "user")
    assert asked == "before the kill\n\nafter it"


async def test_a_run_whose_session_is_gone_ends_too(killed: Host, restarts: Restarts) -> None:
    run = await killed.active((await killed.session()).id)
    in_file(killed.folder, "DELETE FROM session")

    host, _ = await restarted(restarts, killed)

    assert host.ends() == [(run.id, "cancelled")]


async def test_report_S26_odd_rows_stop_neither_the_start_nor_the_session(
    killed: Host, restarts: Restarts
) -> None:
    session = await killed.session()
    run, turn = await killed.turn(session.id)
    await turn.put_message(answer_info(run))
    await turn.put_part(tool_part("msg_a", "prt_odd"))
    await turn.put_part(tool_part("msg_a", "prt_worse"))
    await turn.put_part({"id": "prt_new", "messageID": "msg_a", "type": "hologram", "rays": 7})
    in_file(killed.folder, 'UPDATE part SET body = \'{"type": "tool", "state": 5}\' WHERE id = \'prt_odd\'')
    in_file(killed.folder, "UPDATE part SET body = 'not JSON' WHERE id = 'prt_worse'")
    in_file(killed.folder, "UPDATE session SET model = 'not JSON'")
    in_file(killed.folder, "UPDATE run SET prompt = '[]'")

    host, _ = await restarted(restarts, killed)

    assert host.ends() == [(run.id, "interrupted")]
    _, answer = await host.history(session.id)
    assert [part["type"] for part in answer["parts"]] == ["tool", "tool", "hologram"]
    assert answer["parts"][2]["rays"] == 7
    assert (await host.answered(session.id)).state == "active"


async def test_report_E13_a_partial_view_cannot_replace_the_history(killed: Host, restarts: Restarts) -> None:
    """Nothing writes a session as a whole: what a page of two messages changes is a row."""
    session = await killed.session()
    for number in range(5):
        await killed.answered(session.id, f"question {number}")
    host, _ = await restarted(restarts, killed)
    page = await host.store.read(lambda rows: messages.page(rows, session.id, limit=2))

    await host.sessions.rename(session.id, "seen from a page")
    await host.answered(session.id, "one more")

    assert len(page.items) == 2
    assert len(await host.history(session.id)) == 12


async def test_the_copy_a_kill_leaves_is_checked(killed: Host, restarts: Restarts) -> None:
    await killed.session()
    host = restarts.after_kill(killed)

    assert (killed.folder / f"{DATABASE}-wal").stat().st_size > 0
    assert in_file(host.folder, "SELECT count(*) FROM boot WHERE stopped IS NULL") == [(1,)]
