"""What a person does with sessions."""

import asyncio
from typing import Any

import pytest

from fallback_plugin.agent.store import events, messages, parts, runs, sessions
from fallback_plugin.errors import AgentError, FencedError
from tests.agent.persisted import (
    MODEL,
    OTHER,
    Host,
    answer_info,
    in_file,
    text_part,
    texts,
    tool_part,
)

pytestmark = pytest.mark.anyio


async def listed(host: Host, **given: Any) -> list[str]:
    return [session.id for session in await host.store.read(lambda rows: sessions.newest(rows, **given))]


async def test_a_session_is_shown_as_the_host_does(host: Host) -> None:
    parent = await host.session(title="Mine")

    child = await host.sessions.create("/project", parent_id=parent.id, agent="plan", model=OTHER)

    info = host.told("session.created")[-1]["info"]
    assert info["id"] == child.id
    assert info["parentID"] == parent.id
    assert info["model"] == {"providerID": OTHER.provider, "id": OTHER.model, "variant": "default"}
    assert info["time"] == {"created": 1_800_000_000_000, "updated": 1_800_000_000_000}
    assert info["title"] == "New session"


async def test_a_child_needs_its_parent(host: Host) -> None:
    with pytest.raises(AgentError, match="Session not found: ses_none"):
        await host.session(parent_id="ses_none")


async def test_the_list_shows_what_changed_last_first(host: Host) -> None:
    one, two = await host.session(), await host.session()
    host.clock.now += 5
    await host.answered(one.id)

    assert await listed(host) == [one.id, two.id]
    assert await listed(host, limit=1) == [one.id]


async def test_the_list_can_be_one_folders(host: Host) -> None:
    await host.session()
    other = await host.sessions.create("/other")

    assert await listed(host, directory="/other") == [other.id]


async def test_g7_the_list_is_a_question_and_not_a_copy(host: Host) -> None:
    session = await host.session()

    await host.sessions.rename(session.id, "New name")
    host.close()

    assert in_file(host.folder, "SELECT title FROM session WHERE id = ?", session.id) == [("New name",)]
    assert {path.name for path in host.folder.iterdir()} == {"lock", "sessions.sqlite3"}


async def test_b19_a_models_title_never_replaces_a_persons(host: Host) -> None:
    session = await host.session()
    await host.sessions.rename(session.id, "A model's", by="model")
    await host.sessions.rename(session.id, "A person's")

    late = await host.sessions.rename(session.id, "A model's again", by="model")

    assert (late.title, late.titled_by) == ("A person's", "person")


async def test_b06_a_models_title_leaves_a_session_in_its_place(host: Host) -> None:
    session = await host.session()
    host.clock.now += 5

    renamed = await host.sessions.rename(session.id, "A model's", by="model")

    assert renamed.updated_at == session.updated_at


async def test_a_deleted_session_is_gone(host: Host) -> None:
    session = await host.session()
    await host.answered(session.id)

    await host.sessions.delete(session.id)

    assert await listed(host) == []
    for table in ("message", "part"):
        assert in_file(host.folder, f"SELECT count(*) FROM {table}") == [(0,)]  # noqa: S608 -- constants
    with pytest.raises(AgentError, match="Session not found") as caught:
        await host.accepted(session.id)
    assert caught.value.status == 404
    assert host.types()[-1] == "session.deleted"


async def test_its_words_are_not_left_in_the_log(host: Host) -> None:
    session = await host.session()
    run = await host.answered(session.id, "a secret", "the secret answer")

    await host.sessions.delete(session.id)

    log = await host.store.read(lambda rows: events.after(rows, 0).events)
    assert [(event.type, event.run_id) for event in log] == [("run.ended", run.id), ("session.deleted", None)]
    assert "secret" not in str(log)


async def test_report_S11_a_busy_session_can_be_deleted_and_each_run_ends_once(host: Host) -> None:
    session = await host.session()
    active, turn = await host.turn(session.id)
    waiting = await host.accepted(session.id)

    await host.sessions.delete(session.id)

    assert sorted(host.ends()) == sorted([(active.id, "cancelled"), (waiting.id, "cancelled")])
    with pytest.raises(FencedError):
        await turn.put_message(answer_info(active))
    assert not await host.runs.end(active, "cancelled")


async def test_children_are_deleted_with_their_parent(host: Host) -> None:
    parent = await host.session()
    child = await host.session(parent_id=parent.id)
    await host.session(parent_id=child.id)

    await host.sessions.delete(parent.id)

    assert await listed(host) == []
    assert len(host.told("session.deleted")) == 3


async def test_a_fork_holds_what_stood_before_a_message(host: Host) -> None:
    session = await host.session(title="Mine")
    await host.answered(session.id, "first", "one")
    second = await host.answered(session.id, "second", "two")

    fork = await host.sessions.fork(session.id, second.message_id)

    assert texts(await host.history(fork.id)) == [("user", "first"), ("assistant", "one")]
    question, answer = await host.history(fork.id)
    assert answer["info"]["parentID"] == question["info"]["id"]
    assert question["info"]["id"] not in {entry["info"]["id"] for entry in await host.history(session.id)}
    assert len(await host.history(session.id)) == 4


@pytest.mark.parametrize("before", [None, "second", "third"])
async def test_H4_all_that_is_copied_into_a_fork_is_told_of_and_marked(
    host: Host, before: str | None
) -> None:
    session = await host.session()
    asked = {text: await host.answered(session.id, text, "an answer") for text in ("one", "second", "third")}
    assert all(
        "copied" not in told for told in host.told("message.updated") + host.told("message.part.updated")
    )
    position = len(host.published)

    fork = await host.sessions.fork(session.id, asked[before].message_id if before else None)

    told = [event for event in host.published[position:] if event.type.startswith("message.")]
    assert all(event.session_id == fork.id and event.properties["copied"] is True for event in told)
    assert [event.properties["info"]["id"] for event in told if event.type == "message.updated"] == [
        item["info"]["id"] for item in await host.history(fork.id)
    ]
    position = len(host.published)
    await host.answered(fork.id, "and on", "an answer")
    own = [event for event in host.published[position:] if event.type.startswith("message.")]
    assert own
    assert all("copied" not in event.properties for event in own)


async def test_a_fork_of_a_running_turn_has_an_end(host: Host) -> None:
    session = await host.session()
    run, turn = await host.turn(session.id)
    await turn.put_message(answer_info(run))
    await turn.put_part(text_part("msg_a"))
    await turn.append("prt_t", "text", "half")
    await turn.put_part(tool_part("msg_a"))

    fork = await host.sessions.fork(session.id)

    text, tool = (await host.history(fork.id))[-1]["parts"]
    assert (text["text"], tool["state"]["status"]) == ("half", "error")
    still_open = await host.store.read(parts.open_ones)
    assert {part.session_id for part in still_open} == {session.id}
    assert (await host.answered(fork.id)).state == "active"


async def test_a_revert_hides_until_the_next_prompt_deletes(host: Host) -> None:
    session = await host.session()
    await host.answered(session.id, "keep")
    second = await host.answered(session.id, "wrong")

    reverted = await host.sessions.revert(session.id, second.message_id)
    assert host.told("session.updated")[-1]["info"]["revert"] == {"messageID": second.message_id}
    assert len(await host.history(session.id)) == 4
    await host.active(session.id, "right")

    shown = texts(await host.history(session.id))
    assert shown == [("user", "keep"), ("assistant", "hi"), ("user", "right")]
    assert len(host.told("message.removed")) == 2
    after = await host.store.read(lambda rows: sessions.get(rows, session.id))
    assert after.reverted_to is None
    assert after.revision > reverted.revision


async def test_a_revert_can_be_taken_back(host: Host) -> None:
    session = await host.session()
    run = await host.answered(session.id)
    await host.sessions.revert(session.id, run.message_id)

    await host.sessions.unrevert(session.id)
    await host.active(session.id)

    assert len(await host.history(session.id)) == 3


async def test_a_prompt_cancelled_while_it_waits_is_not_lost_in_what_is_hidden(host: Host) -> None:
    session = await host.session()
    run = await host.answered(session.id, "wrong")
    await host.sessions.revert(session.id, run.message_id)

    await host.runs.cancel([await host.accepted(session.id, "right")])

    assert texts(await host.history(session.id)) == [("user", "right"), ("assistant", "")]


async def test_g6_a_change_since_the_caller_looked_refuses_the_loss_of_messages(host: Host) -> None:
    session = await host.session()
    run = await host.answered(session.id)
    await host.answered(session.id)
    await host.sessions.undo(session.id, revision=session.revision)

    for call in (
        host.sessions.undo(session.id, revision=session.revision),
        host.sessions.revert(session.id, run.message_id, revision=session.revision),
        host.sessions.truncate(session.id, run.message_id, revision=session.revision),
        host.sessions.delete_message(session.id, run.message_id, revision=session.revision),
    ):
        with pytest.raises(AgentError, match="is at revision 1 by now, not 0; read it again") as caught:
            await call
        assert caught.value.status == 409

    assert len(await host.history(session.id)) == 2


async def test_g6_a_busy_session_refuses_the_loss_of_messages(host: Host) -> None:
    session = await host.session()
    run = await host.active(session.id)

    for call in (
        host.sessions.undo(session.id),
        host.sessions.revert(session.id, run.message_id),
        host.sessions.unrevert(session.id),
        host.sessions.truncate(session.id, run.message_id),
        host.sessions.delete_message(session.id, run.message_id),
        host.sessions.delete_part(session.id, run.message_id, "prt_1"),
    ):
        with pytest.raises(AgentError, match=f"Session is busy: {session.id}") as caught:
            await call
        assert caught.value.status == 409


async def test_b21_two_undos_at_once_take_one_prompt_each(host: Host) -> None:
    session = await host.session()
    for text in ("a", "b", "c"):
        await host.answered(session.id, text)

    undone = await asyncio.gather(host.sessions.undo(session.id), host.sessions.undo(session.id))

    assert [(one.removed, one.text) for one in undone] == [(2, "c"), (2, "b")]
    assert texts(await host.history(session.id)) == [("user", "a"), ("assistant", "hi")]


async def test_there_may_be_nothing_to_undo(host: Host) -> None:
    session = await host.session()

    with pytest.raises(AgentError, match=f"nothing to undo in session {session.id}"):
        await host.sessions.undo(session.id)


async def test_a_session_is_cut_off_at_a_message(host: Host) -> None:
    session = await host.session()
    run = await host.answered(session.id)
    await host.answered(session.id)

    cut = await host.sessions.truncate(session.id, f"{run.message_id}-answer")

    assert texts(await host.history(session.id)) == [("user", "hello")]
    assert cut.reverted_to is None


async def test_one_message_and_one_part_are_deleted(host: Host) -> None:
    session = await host.session()
    run = await host.answered(session.id)
    answer = f"{run.message_id}-answer"

    await host.sessions.delete_part(session.id, answer, "t")
    await host.sessions.delete_message(session.id, run.message_id)

    (left,) = await host.history(session.id)
    assert (left["info"]["id"], left["parts"]) == (answer, [])
    assert host.told("message.part.removed") == [
        {"sessionID": session.id, "messageID": answer, "partID": "t"}
    ]
    assert host.told("message.removed") == [{"sessionID": session.id, "messageID": run.message_id}]


async def test_what_is_not_there_is_not_deleted(host: Host) -> None:
    session = await host.session()
    run = await host.answered(session.id)

    with pytest.raises(AgentError, match="Message not found: msg_none"):
        await host.sessions.delete_message(session.id, "msg_none")
    with pytest.raises(AgentError, match="Part not found: prt_none"):
        await host.sessions.delete_part(session.id, run.message_id, "prt_none")


async def test_report_E23_an_edit_after_a_failure_leaves_one_order(host: Host) -> None:
    """429, edit and send again, 429, read anew: one source, one order, nothing twice."""
    session = await host.session()
    for text in ("first", "edited"):
        if await host.history(session.id):
            await host.sessions.undo(session.id)
        await host.runs.end(await host.active(session.id, text), "failed")

    once, twice = await host.history(session.id), await host.history(session.id)

    assert once == twice
    assert texts(once) == [("user", "edited"), ("assistant", "")]


async def test_report_S7_order_is_by_position_whatever_ids_and_clocks_say(host: Host) -> None:
    session = await host.session()
    for number, message_id in enumerate(("msg_z", "msg_a", "msg_m")):
        host.clock.now -= 100
        await host.answered(session.id, f"{number}", message_id=message_id)

    questions = [text for role, text in texts(await host.history(session.id)) if role == "user"]

    assert questions == ["0", "1", "2"]


async def test_report_S15_writers_of_one_session_lose_nothing(host: Host) -> None:
    session = await host.session()

    async def write(number: int) -> None:
        await host.runs.cancel([await host.accepted(session.id, str(number))])

    await asyncio.gather(*map(write, range(20)))

    shown = {text for role, text in texts(await host.history(session.id)) if role == "user"}

    assert shown == {str(number) for number in range(20)}


async def test_another_runs_message_is_found_by_its_run(host: Host) -> None:
    session = await host.session()
    run = await host.answered(session.id)

    own = await host.store.read(lambda rows: messages.of_run(rows, run.id, session.id))
    again = await host.store.read(lambda rows: runs.by_message(rows, session.id, run.message_id))

    assert [row.id for row in own] == [run.message_id, f"{run.message_id}-answer"]
    assert again
    assert again.id == run.id
    assert again.prompt.model == MODEL
