"""A compacted session goes on under a new id: nothing that waits is lost, and the old history stays."""

import pytest

from fallback_plugin.agent.journal.continuing import Continued, Opening
from fallback_plugin.agent.records import Run
from fallback_plugin.agent.store import messages, runs, segments, sessions
from fallback_plugin.errors import FencedError
from tests.agent.persisted import Host, answer_info, completed, text_part, texts

pytestmark = pytest.mark.anyio


async def compacted(host: Host) -> tuple[Run, Continued]:
    """Continue a session of one answered prompt whose second is under way."""
    session = await host.session(title="Mine")
    await host.answered(session.id, "old", "old answer")
    run = await host.active(session.id, "new")
    summary = {
        "role": "user",
        "time": {"created": 1},
        "agent": "build",
        "model": {"providerID": "p", "modelID": "m"},
    }
    opening = Opening(summary, [{"type": "text", "text": "in short"}])
    return run, await host.runs.continue_as(run, [opening], keep_from=run.message_id)


async def test_the_new_session_begins_with_the_summary_and_goes_on_with_the_prompt(host: Host) -> None:
    old, (new, run) = await compacted(host)

    assert texts(await host.history(new.id)) == [("user", "in short"), ("user", "new")]
    assert len(await host.history(old.session_id)) == 3
    assert (run.id, run.session_id, run.writer) == (old.id, new.id, old.writer)
    assert new.continues == old.session_id
    assert host.told("session.compacted") == [{"sessionID": old.session_id, "continuedBy": new.id}]


async def test_the_turn_writes_to_the_new_session(host: Host) -> None:
    session = await host.session()
    run, turn = await host.turn(session.id)
    new, _ = await host.runs.continue_as(run, keep_from=run.message_id)

    await turn.put_message(answer_info(run))
    await turn.put_part(text_part("msg_a", text="after it", end=True))
    await turn.finish(completed(answer_info(run)), "completed")

    assert texts(await host.history(new.id)) == [("user", "hello"), ("assistant", "after it")]
    assert texts(await host.history(session.id)) == [("user", "hello")]
    (end,) = host.told("run.ended")
    assert (end["sessionID"], end["text"]) == (new.id, "after it")


async def test_b24_the_old_id_leads_to_the_new_session(host: Host) -> None:
    old, (new, run) = await compacted(host)
    await host.runs.end(run, "completed")

    late = await host.accepted(old.session_id, "to the old id")

    assert late.session_id == new.id
    assert (await host.store.read(lambda rows: sessions.latest(rows, old.session_id))).id == new.id


async def test_b25_a_session_deleted_meanwhile_is_not_continued(host: Host) -> None:
    run = await host.active((await host.session()).id)
    await host.sessions.delete(run.session_id)

    with pytest.raises(FencedError):
        await host.runs.continue_as(run)

    assert await host.store.read(sessions.newest) == []


async def test_prompts_that_wait_go_along_with_their_keys(host: Host) -> None:
    session = await host.session()
    run = await host.active(session.id)
    waiting = await host.accepted(session.id, "next", message_id="msg_next")

    new, _ = await host.runs.continue_as(run)

    found = await host.store.read(lambda rows: runs.get(rows, waiting.id))
    assert (found.session_id, found.state) == (new.id, "accepted")
    repeated = await host.accepted(session.id, "next", message_id="msg_next")
    assert repeated.id == waiting.id


async def test_an_earlier_request_repeated_at_the_old_id_is_known(host: Host) -> None:
    session = await host.session()
    first = await host.answered(session.id, message_id="msg_first")
    await host.runs.continue_as(await host.active(session.id))

    assert (await host.accepted(session.id, message_id="msg_first")).id == first.id


async def test_memory_that_is_owed_goes_along(host: Host) -> None:
    session = await host.session()
    first = await host.active(session.id)
    await host.runs.turn(first, memory_owner="digest").finish(None, "completed")
    second = await host.active(session.id)

    new, moved = await host.runs.continue_as(second)
    await host.runs.turn(moved, memory_owner="digest").finish(None, "completed")

    (segment,) = (await host.store.read(lambda rows: segments.load(rows, new.id))).segments
    assert (segment.start, segment.end) == (1, 2)


async def test_only_the_session_that_carries_on_is_listed(host: Host) -> None:
    old, (new, _) = await compacted(host)

    shown = await host.store.read(sessions.newest)
    everything = await host.store.read(lambda rows: sessions.newest(rows, with_continued=True))

    assert [session.id for session in shown] == [new.id]
    assert {session.id for session in everything} == {new.id, old.session_id}


async def test_its_deletion_takes_the_old_history_along(host: Host) -> None:
    old, (new, run) = await compacted(host)

    await host.sessions.delete(new.id)

    assert await host.store.read(lambda rows: sessions.find(rows, old.session_id)) is None
    assert host.ends()[-1] == (run.id, "cancelled")


async def test_a_session_can_be_continued_again(host: Host) -> None:
    old, (_, run) = await compacted(host)

    newest, _ = await host.runs.continue_as(run, keep_from=run.message_id)

    assert (await host.store.read(lambda rows: sessions.latest(rows, old.session_id))).id == newest.id
    (kept,) = await host.store.read(lambda rows: messages.since(rows, newest.id, 0))
    assert kept.id == run.message_id
