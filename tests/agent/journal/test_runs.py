"""A run's way from its acceptance to its one end."""

import dataclasses
from typing import Any

import pytest

from fallback_plugin.agent.records import Run, UserPrompt
from fallback_plugin.agent.store import runs, sessions
from fallback_plugin.errors import AgentError, FencedError
from fallback_plugin.events import AssistantMessage, UserMessage
from fallback_plugin.wire.event import read_event
from fallback_plugin.wire.message import read_history
from tests.agent.persisted import (
    MODEL,
    OTHER,
    Host,
    answer_info,
    completed,
    prompt,
    text_part,
    texts,
    tool_part,
)

pytestmark = pytest.mark.anyio


async def stored(host: Host, run: Run) -> Run:
    return await host.store.read(lambda rows: runs.get(rows, run.id))


async def test_an_accepted_prompt_is_a_row_and_no_message_yet(host: Host) -> None:
    session = await host.session()

    run = await host.accepted(session.id, "hello", message_id="msg_mine")

    assert (run.state, run.message_id, run.sequence) == ("accepted", "msg_mine", 1)
    assert await host.history(session.id) == ()
    (told,) = host.told("run.updated")
    assert (told["run"]["state"], told["run"]["text"]) == ("accepted", "hello")


async def test_a_prompt_of_no_session_is_refused(host: Host) -> None:
    with pytest.raises(AgentError, match="Session not found: ses_none") as caught:
        await host.accepted("ses_none")

    assert caught.value.status == 404


async def test_an_empty_prompt_is_refused(host: Host) -> None:
    session = await host.session()

    with pytest.raises(AgentError, match="the prompt is empty"):
        await host.accepted(session.id, "")


async def test_report_S4_a_repeated_request_gets_the_first_run(host: Host) -> None:
    session = await host.session()
    first = await host.runs.accept(session.id, prompt(message_id="msg_1"), 1)

    again = await host.runs.accept(session.id, prompt(message_id="msg_1", model=OTHER), 2)

    assert (first.is_new, again.is_new) == (True, False)
    assert again.run == first.run
    assert len(host.told("run.updated")) == 1


async def test_report_S8_a_clients_key_makes_two_requests_one(host: Host) -> None:
    session = await host.session()
    first = await host.runs.accept(session.id, prompt(client_key="submit-1"), 1)
    await host.runs.activate(first.run)
    await host.runs.end(first.run, "completed")

    again = await host.runs.accept(session.id, prompt(client_key="submit-1"), 2)

    assert (again.is_new, again.run.id, again.run.state) == (False, first.run.id, "ended")


@pytest.mark.parametrize("state", ["accepted", "queued", "active", "ended"])
@pytest.mark.parametrize("name", [{"client_key": "k"}, {"message_id": "msg_own", "client_key": "msg_own"}])
async def test_H7_other_words_under_a_known_name_are_refused(
    host: Host, state: str, name: dict[str, str]
) -> None:
    session = await host.session()
    first = (await host.runs.accept(session.id, prompt("first", **name), 1)).run
    if state == "queued":
        await host.runs.queue(first)
    elif state != "accepted":
        begun = await host.runs.activate(first)
        if state == "ended":
            await host.runs.turn(begun).finish(None, "completed")

    again = await host.runs.accept(session.id, prompt("first", **name), 2)
    with pytest.raises(AgentError, match="with another content") as refused:
        await host.runs.accept(session.id, prompt("second", **name), 3)

    assert (again.run.id, again.is_new, refused.value.status) == (first.id, False, 409)


@pytest.mark.parametrize(
    "more", [{"no_reply": True}, {"system": "Be brief."}, {"tools": {"bash": False}}, {"delivery": "steer"}]
)
async def test_H7_another_request_for_the_same_words_is_refused_too(host: Host, more: dict[str, Any]) -> None:
    session = await host.session()
    await host.runs.accept(session.id, prompt(client_key="k"), 1)

    with pytest.raises(AgentError, match="with another content"):
        await host.runs.accept(session.id, prompt(client_key="k", **more), 2)


async def test_H7_new_names_of_the_parts_are_no_other_content(host: Host) -> None:
    session = await host.session()
    part = {"type": "text", "text": "hello"}
    first = UserPrompt(parts=({**part, "id": "prt_1"},), client_key="k")
    again = UserPrompt(parts=({**part, "id": "prt_2"},), client_key="k")

    accepted = [
        (await host.runs.accept(session.id, each, n)).run.id for n, each in enumerate((first, again), 1)
    ]

    assert len(set(accepted)) == 1


@pytest.mark.parametrize("keys", [("k1", "k2"), ("k1", "msg_own"), ("msg_own", "k2")])
async def test_H7_two_waiting_prompts_never_have_one_message(host: Host, keys: tuple[str, str]) -> None:
    session = await host.session()
    await host.active(session.id, "under way")
    first = prompt("one", message_id="msg_own", client_key=keys[0])
    accepted = await host.runs.accept(session.id, first, 2)

    with pytest.raises(AgentError, match="with another content") as refused:
        await host.runs.accept(session.id, prompt("two", message_id="msg_own", client_key=keys[1]), 3)
    again = await host.runs.accept(session.id, prompt("one", message_id="msg_own", client_key=keys[1]), 4)

    assert refused.value.status == 409
    assert (again.run.id, again.is_new) == (accepted.run.id, False)


async def test_H7_two_parts_with_one_id_are_refused_and_leave_nothing(host: Host) -> None:
    session = await host.session()
    part = {"type": "text", "id": "prt_own"}
    twice = UserPrompt(parts=({**part, "text": "a"}, {**part, "text": "b"}))

    with pytest.raises(AgentError, match="two parts of the prompt have the id prt_own") as refused:
        await host.runs.accept(session.id, twice, 1)

    assert refused.value.status == 400
    assert host.told("run.updated") == []


async def test_the_same_key_in_another_session_is_another_prompt(host: Host) -> None:
    one, other = await host.session(), await host.session()
    await host.runs.accept(one.id, prompt(message_id="msg_1"), 1)

    assert (await host.runs.accept(other.id, prompt(message_id="msg_1"), 2)).is_new


async def test_a_run_that_begins_stores_its_persons_message(host: Host) -> None:
    session = await host.session()
    given = {"model": OTHER, "agent": "plan", "system": "be brief", "tools": {"bash": False}}

    run = await host.active(session.id, "hello", message_id="msg_1", **given)

    (message,) = read_history(await history_list(host, session.id))
    assert message.info == UserMessage(
        id="msg_1",
        session_id=session.id,
        model=OTHER,
        created_at=host.clock.now,
        agent="plan",
        system="be brief",
        tools={"bash": False},
    )
    assert [part.text for part in message.parts] == ["hello"]
    assert run.state == "active"
    assert run.writer
    assert host.types()[1:] == [
        "run.updated",
        "message.updated",
        "message.part.updated",
        "session.updated",
        "run.updated",
    ]


async def history_list(host: Host, session_id: str) -> list[object]:
    return list(await host.history(session_id))


async def test_a_prompt_without_a_model_runs_on_its_sessions_last_one(host: Host) -> None:
    session = await host.session()
    first = await host.answered(session.id, model=OTHER)

    second = await host.active(session.id)

    assert first.prompt.model == second.prompt.model == OTHER


async def test_a_prompt_that_was_kept_from_its_model_leaves_that_to_its_session(host: Host) -> None:
    session = await host.session()
    accepted = await host.runs.accept(session.id, prompt(model=OTHER), 1)
    moved = dataclasses.replace(accepted.run.prompt, model=MODEL, instead_of=OTHER)

    run = await host.runs.activate(dataclasses.replace(accepted.run, prompt=moved))

    assert run.prompt.model == MODEL
    assert (await host.store.read(lambda rows: sessions.get(rows, session.id))).model == OTHER


async def test_the_first_one_runs_on_the_default_model(host: Host) -> None:
    run = await host.active((await host.session()).id)

    assert (run.prompt.model, run.prompt.agent) == (MODEL, "build")


async def test_a_run_whose_end_could_not_be_written_is_ended_by_the_next_one(host: Host) -> None:
    session = await host.session()
    unended = await host.active(session.id)

    following = await host.active(session.id)

    assert ((await stored(host, unended)).outcome, following.state) == ("interrupted", "active")
    with pytest.raises(FencedError):
        await host.runs.turn(unended).finish(None, "completed")


async def test_a_run_begins_once(host: Host) -> None:
    run = await host.active((await host.session()).id)

    with pytest.raises(AgentError, match="cannot begin: it is active"):
        await host.runs.activate(run)


async def test_a_run_that_waits_says_so(host: Host) -> None:
    run = await host.accepted((await host.session()).id)

    await host.runs.queue(run)

    assert (await stored(host, run)).state == "queued"
    assert host.told("run.updated")[-1]["run"]["state"] == "queued"


async def test_report_E14_a_cancelled_prompt_is_kept_with_an_empty_stopped_answer(host: Host) -> None:
    session = await host.session()
    waiting = [await host.accepted(session.id, text) for text in ("a", "b")]

    await host.runs.cancel(waiting)

    assert texts(await host.history(session.id)) == [
        ("user", "a"),
        ("assistant", ""),
        ("user", "b"),
        ("assistant", ""),
    ]
    answers = [m.info for m in read_history(await history_list(host, session.id))[1::2]]
    for run, answer in zip(waiting, answers, strict=True):
        assert isinstance(answer, AssistantMessage)
        assert answer.error
        assert answer.error.is_abort
        assert (answer.parent_id, answer.completed) == (run.message_id, True)
    assert host.ends() == [(run.id, "cancelled") for run in waiting]
    assert host.told("session.error") == []


async def test_cancelling_twice_ends_once(host: Host) -> None:
    run = await host.accepted((await host.session()).id)

    await host.runs.cancel([run])
    await host.runs.cancel([run])

    assert host.ends() == [(run.id, "cancelled")]


async def test_an_active_run_is_not_ended_by_cancelling_those_that_wait(host: Host) -> None:
    run = await host.active((await host.session()).id)

    await host.runs.cancel([run])

    assert (await stored(host, run)).state == "active"


async def test_folded_prompts_become_messages_of_the_active_turn(host: Host) -> None:
    session = await host.session()
    active = await host.active(session.id, "first")
    folded = await host.accepted(session.id, "steer", delivery="steer")

    await host.runs.fold([folded], active)

    assert texts(await host.history(session.id)) == [("user", "first"), ("user", "steer")]
    assert host.ends() == [(folded.id, "folded")]
    assert (await stored(host, active)).state == "active"


async def test_nothing_is_folded_into_a_run_that_ended(host: Host) -> None:
    session = await host.session()
    active = await host.active(session.id)
    folded = await host.accepted(session.id)
    await host.runs.end(active, "completed")

    with pytest.raises(FencedError):
        await host.runs.fold([folded], active)

    assert (await stored(host, folded)).state == "accepted"


async def test_the_safety_net_closes_what_is_open(host: Host) -> None:
    session = await host.session()
    run, turn = await host.turn(session.id)
    await turn.put_message(answer_info(run))
    await turn.put_part(text_part("msg_a", "prt_1"))
    await turn.append("prt_1", "text", "half an ans")
    await turn.put_part(tool_part("msg_a", "prt_2", "running"))
    await turn.put_part(tool_part("msg_a", "prt_3", "pending"))
    await turn.put_part(tool_part("msg_a", "prt_4", "completed"))

    assert await host.runs.end(run, "cancelled")

    _, answer = await host.history(session.id)
    text, *tools = answer["parts"]
    assert (text["text"], "end" in text["time"]) == ("half an ans", True)
    assert [tool["state"]["status"] for tool in tools] == ["error", "error", "completed"]
    assert tools[0]["state"]["error"] == "Cancelled while it ran: whether it took effect is not known"
    assert tools[1]["state"]["error"] == "Cancelled before it ran"
    assert answer["info"]["error"]["name"] == "MessageAbortedError"
    (end,) = host.told("run.ended")
    assert (end["text"], end["messageID"], end["outcome"]) == ("half an ans", "msg_a", "cancelled")


async def test_the_safety_net_ends_a_run_once(host: Host) -> None:
    run = await host.active((await host.session()).id)

    assert [await host.runs.end(run, "failed"), await host.runs.end(run, "cancelled")] == [True, False]
    assert host.ends() == [(run.id, "failed")]


async def test_text_that_still_waited_is_not_lost_by_the_safety_net(host: Host) -> None:
    session = await host.session()
    run, turn = await host.turn(session.id)
    await turn.put_message(answer_info(run))
    await turn.put_part(text_part("msg_a", "prt_1"))
    await turn.append("prt_1", "text", "last words")

    await host.runs.end(run, "failed", {"name": "UnknownError", "data": {"message": "bug"}})

    assert texts(await host.history(session.id))[-1] == ("assistant", "last words")


async def test_a_failure_is_an_error_of_the_session_and_a_stop_is_none(host: Host) -> None:
    session = await host.session()
    failed = await host.active(session.id)
    error = {"name": "APIError", "data": {"message": "too many requests", "statusCode": 429}}

    await host.runs.end(failed, "failed", error)
    await host.runs.end(await host.active(session.id), "cancelled")

    assert host.told("session.error") == [{"sessionID": session.id, "error": error}]
    assert (await host.history(session.id))[1]["info"]["error"] == error


async def test_a_status_is_published_and_idle_twice_as_the_host_does(host: Host) -> None:
    session = await host.session()

    await host.runs.status([session.id], "busy")
    await host.runs.status([session.id], "idle")

    assert host.types()[1:] == ["session.status", "session.status", "session.idle"]


async def test_every_event_can_be_read_as_the_hosts(host: Host) -> None:
    session = await host.session()
    await host.answered(session.id)
    await host.runs.cancel([await host.accepted(session.id)])
    await host.runs.end(await host.active(session.id), "failed")
    await host.sessions.revert(session.id, (await host.history(session.id))[0]["info"]["id"])
    await host.sessions.delete(session.id)

    read = [read_event({"type": event.type, "properties": event.properties}) for event in host.published]

    assert {event.session_id for event in read} == {session.id}


async def test_a_stored_prompt_is_answered_again_in_its_place(host: Host) -> None:
    session = await host.session()
    first = await host.active(session.id, "question", message_id="msg_q", system="be brief")
    await host.runs.end(first, "failed")

    again = await host.active(session.id, "", message_id="msg_q", model=OTHER)

    assert again.id != first.id
    assert again.message_id == "msg_q"
    (message,) = await host.history(session.id)
    assert message["info"]["model"] == {"providerID": OTHER.provider, "modelID": OTHER.model}
    assert "system" not in message["info"]
    assert [part["text"] for part in message["parts"]] == ["question"]
    assert len(host.told("message.removed")) == 1


async def test_answering_again_keeps_what_tools_did(host: Host) -> None:
    session = await host.session()
    run, turn = await host.turn(session.id, message_id="msg_q")
    await turn.put_message(completed(answer_info(run, "msg_step"), finish="tool-calls"))
    await turn.put_part(tool_part("msg_step", status="completed"))
    await turn.put_message(answer_info(run, "msg_stub"))
    await turn.finish(None, "failed")

    await host.active(session.id, "", message_id="msg_q")

    assert [entry["info"]["id"] for entry in await host.history(session.id)] == ["msg_q", "msg_step"]


async def test_answering_again_twice_is_one_run_while_it_lasts(host: Host) -> None:
    session = await host.session()
    await host.answered(session.id, message_id="msg_q")
    first = await host.runs.accept(session.id, prompt("", message_id="msg_q"), 2)

    again = await host.runs.accept(session.id, prompt("", message_id="msg_q"), 3)

    assert (first.is_new, again.is_new, again.run.id) == (True, False, first.run.id)


async def test_only_the_last_prompt_is_answered_again(host: Host) -> None:
    session = await host.session()
    await host.answered(session.id, message_id="msg_1")
    await host.answered(session.id, message_id="msg_2")

    with pytest.raises(AgentError, match="msg_1 is not the last prompt") as caught:
        await host.accepted(session.id, "", message_id="msg_1")

    assert caught.value.status == 409


async def test_an_unknown_message_is_not_answered_again(host: Host) -> None:
    session = await host.session()

    with pytest.raises(AgentError, match="the prompt is empty"):
        await host.accepted(session.id, "", message_id="msg_none")


async def test_a_prompt_taken_back_can_be_sent_anew_under_its_id(host: Host) -> None:
    session = await host.session()
    await host.answered(session.id, "old words", message_id="msg_1")
    await host.sessions.undo(session.id)

    await host.active(session.id, "new words", message_id="msg_1")

    assert texts(await host.history(session.id)) == [("user", "new words")]


async def test_a_prompt_that_is_hidden_can_be_sent_anew_under_its_id(host: Host) -> None:
    session = await host.session()
    await host.answered(session.id, "words", message_id="msg_1")
    await host.sessions.revert(session.id, "msg_1")

    with pytest.raises(AgentError, match="the prompt is empty"):
        await host.accepted(session.id, "", message_id="msg_1")
    await host.active(session.id, "words", message_id="msg_1", model=OTHER)

    assert texts(await host.history(session.id)) == [("user", "words")]


async def test_a_held_run_is_sent_under_a_new_number(host: Host) -> None:
    run = await held(host, "kept")

    sent = await host.runs.send(run.id, 7)

    assert (sent.state, sent.sequence) == ("accepted", 7)
    assert (await host.runs.activate(sent)).state == "active"


async def test_a_held_run_is_discarded_without_a_message(host: Host) -> None:
    run = await held(host)

    await host.runs.discard(run.id)

    assert host.ends() == [(run.id, "discarded")]
    assert await host.history(run.session_id) == ()


async def test_what_is_not_held_is_neither_sent_nor_discarded(host: Host) -> None:
    run = await host.accepted((await host.session()).id)

    for answer in (host.runs.send(run.id, 2), host.runs.discard(run.id)):
        with pytest.raises(AgentError, match="is not held but accepted") as caught:
            await answer
        assert caught.value.status == 409


async def held(host: Host, text: str = "hello") -> Run:
    run = await host.accepted((await host.session()).id, text)
    held = dataclasses.replace(run, state="held")
    return await host.store.write(lambda tx: runs.put(tx.rows, held, boot=tx.boot))
