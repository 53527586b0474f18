"""A session is saved while it is streamed: the reference's tests of that, as behaviour.

Named ``b01`` to ``b25`` after the table they come from; others of it stand where they belong (b06, b19, b21
with sessions, b07, b08, b09, b11, b14 with turns, b24, b25 with continued sessions).
"""

import asyncio
import itertools
from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import pytest

from fallback_plugin.agent.records import Run
from fallback_plugin.agent.store import messages, runs, sessions
from fallback_plugin.errors import FencedError, SessionBusyError, StoreError
from tests.agent.persisted import (
    Host,
    Restarts,
    answer_info,
    completed,
    in_file,
    text_part,
    texts,
    tool_part,
)

pytestmark = pytest.mark.anyio


async def watched(ask: Callable[[], Awaitable[Any]], while_doing: Callable[[], Awaitable[None]]) -> list[Any]:
    """Ask again and again while something is done, and return every answer."""
    answers: list[Any] = []
    done = anyio.Event()

    async def look() -> None:
        while not done.is_set():
            answers.append(await ask())

    async with anyio.create_task_group() as group:
        group.start_soon(look)
        await while_doing()
        done.set()
    return answers


async def test_b01_a_session_with_a_message_is_in_the_file(host: Host) -> None:
    run = await host.active((await host.session()).id)

    assert in_file(host.folder, "SELECT session, id FROM message") == [(run.session_id, run.message_id)]


async def test_b02_a_checkpoint_is_in_the_file_without_a_wait_for_the_disk(host: Host) -> None:
    run, turn = await host.turn((await host.session()).id)
    await turn.put_message(answer_info(run))

    await turn.put_part(text_part("msg_a", text="half"), durable=False)

    assert in_file(host.folder, "SELECT count(*) FROM part WHERE id = 'prt_t'") == [(1,)]


async def test_b03_there_is_no_index_beside_the_file(host: Host) -> None:
    await host.active((await host.session()).id)

    assert {path.name.partition("-")[0] for path in host.folder.iterdir()} == {"lock", "sessions.sqlite3"}


async def test_b04_a_new_session_is_in_the_list_at_once(host: Host) -> None:
    session = await host.session()

    assert await host.store.read(sessions.newest) == [session]


async def test_b05_what_is_saved_after_a_checkpoint_adds_to_it(host: Host) -> None:
    run, turn = await host.turn((await host.session()).id)
    await turn.put_message(answer_info(run))
    await turn.put_part(text_part("msg_a"), durable=False)

    await turn.put_message(completed(answer_info(run, "msg_b")))

    assert len(await host.history(run.session_id)) == 3


async def test_b10_a_prompt_under_way_outlives_the_process(host: Host, restarts: Restarts) -> None:
    session = await host.session()
    await host.answered(session.id, "earlier")
    run = await host.active(session.id, "pending")

    next_start = restarts.after_kill(host)

    found = await next_start.store.read(lambda rows: runs.get(rows, run.id))
    assert found == run
    shown = texts(await next_start.history(session.id))
    assert shown == [("user", "earlier"), ("assistant", "hi"), ("user", "pending")]


async def test_b12_two_writers_at_once_do_not_collide(host: Host) -> None:
    session = await host.session()

    await asyncio.gather(*(host.sessions.rename(session.id, title) for title in ("one", "two")))

    assert [told["info"]["title"] for told in host.told("session.updated")] == ["one", "two"]
    assert (await host.store.read(lambda rows: sessions.get(rows, session.id))).title == "two"


async def test_b13_a_turn_ends_after_the_checkpoint_that_is_under_way(host: Host) -> None:
    run, turn = await host.turn((await host.session()).id)
    await turn.put_message(answer_info(run))
    await turn.put_part(text_part("msg_a"))
    await turn.append("prt_t", "text", "all of it")
    checkpoint = turn.flush()

    await turn.finish(completed(answer_info(run)), "completed")

    assert checkpoint
    assert checkpoint.done()
    assert host.told("run.ended")[0]["text"] == "all of it"
    assert host.types().index("message.part.delta") < host.types().index("run.ended")


async def test_b15_the_first_error_is_the_one_that_surfaces(host: Host) -> None:
    run, turn = await host.turn((await host.session()).id)

    with pytest.raises(KeyError, match="role"):
        await turn.put_message({"id": "msg_a"})

    assert await host.runs.end(run, "failed")


async def test_b16_an_error_passes_through_and_leaves_nothing(host: Host) -> None:
    def work(_: Any) -> None:
        raise ValueError("of the caller's own")

    with pytest.raises(ValueError, match="of the caller's own"):
        await host.store.write(work)

    assert (await host.session()).id


async def test_b17_a_failure_before_anything_was_written_is_recorded(host: Host) -> None:
    run = await host.active((await host.session()).id)
    error = {"name": "UnknownError", "data": {"message": "no provider"}}

    await host.runs.end(run, "failed", error)

    _, answer = await host.history(run.session_id)
    assert answer["info"]["error"] == error


async def test_b18_b20_whatever_comes_during_a_checkpoint_is_before_or_after_it(host: Host) -> None:
    session = await host.session()
    run, turn = await host.turn(session.id)
    await turn.put_message(answer_info(run))

    outcomes = await asyncio.gather(
        turn.put_part(tool_part("msg_a", status="completed")),
        host.sessions.rename(session.id, "meanwhile"),
        host.sessions.undo(session.id),
        host.runs.end(run, "cancelled"),
        turn.put_part(text_part("msg_a", text="late")),
        host.sessions.undo(session.id),
        return_exceptions=True,
    )

    assert [type(outcome) for outcome in outcomes if isinstance(outcome, Exception)] == [
        SessionBusyError,
        FencedError,
    ]
    assert await host.history(session.id) == ()


async def test_b20_a_stop_waits_for_the_checkpoint_in_progress_and_nothing_comes_after_it(host: Host) -> None:
    run, turn = await host.turn((await host.session()).id)
    await turn.put_message(answer_info(run))
    await turn.put_part(text_part("msg_a"))
    await turn.append("prt_t", "text", "said before the stop")

    checkpoint = asyncio.ensure_future(turn.put_part(tool_part("msg_a")))
    await asyncio.sleep(0)  # it is under way
    stopped = await host.runs.end(run, "cancelled")

    await checkpoint
    assert stopped
    (_, answer) = await host.history(run.session_id)
    said, tool = answer["parts"]
    assert said["text"] == "said before the stop"
    assert tool["state"]["status"] == "error"
    with pytest.raises(FencedError):
        await turn.put_message(answer_info(run))


async def test_i9_what_a_run_writes_stands_together_under_its_id(host: Host) -> None:
    session = await host.session()
    for number in range(3):
        run, turn = await host.turn(session.id)
        steering = await host.accepted(session.id, f"steer {number}")
        await turn.put_message(answer_info(run, f"msg_{number}_a"))
        await host.runs.fold([steering], run)
        await turn.put_message(answer_info(run, f"msg_{number}_b"))
        await turn.finish(None, "completed")

    found = await host.store.read(lambda rows: messages.since(rows, session.id, 0))

    written_by = [row.run_id for row in found]
    assert len(written_by) == 12
    assert [len(list(own)) for _, own in itertools.groupby(written_by)] == [4, 4, 4]


async def test_b22_every_state_that_is_seen_is_one_that_was(host: Host) -> None:
    session = await host.session()
    await host.answered(session.id, "kept")
    await host.answered(session.id, "again")

    async def turns() -> None:
        for _ in range(5):
            await host.sessions.undo(session.id)
            await host.answered(session.id, "again")

    seen = await watched(lambda: host.history(session.id), turns)

    again = [("user", "again"), ("assistant", ""), ("assistant", "hi")]
    states = [[], again[:1], again[:2], [again[0], again[2]]]
    for history in seen:
        assert texts(history) in [[("user", "kept"), ("assistant", "hi"), *state] for state in states]


async def test_b23_the_bookkeeping_of_a_turn_is_there_whole_or_not_at_all(host: Host) -> None:
    session = await host.session()

    async def begin_and_end() -> None:
        for _ in range(10):
            await host.runs.end(await host.active(session.id), "completed")

    async def latest() -> list[Run]:
        return await host.store.read(lambda rows: runs.in_states(rows, ("accepted", "active", "ended")))

    seen = await watched(latest, begin_and_end)

    for run in (run for found in seen for run in found):
        assert (run.state == "active") == (run.writer is not None)
        assert (run.state == "ended") == (run.ended_at is not None) == (run.outcome is not None)
    assert {run.state for run in await latest()} == {"ended"}


async def test_g3_a_checkpoint_writes_as_much_in_a_long_session_as_in_a_short_one(host: Host) -> None:
    (short, short_pages), (long, long_pages) = [await written(host, length) for length in (10, 2_000)]

    assert short == long
    # The trees are a level higher, and pages of the log are whole.
    assert 0 < short_pages <= long_pages <= short_pages + 4


async def written(host: Host, length: int) -> tuple[int, int]:
    """Return the rows and the pages that a tool's result costs in a session of so many messages."""
    session = await host.session()
    await host.store.write(
        lambda tx: [
            messages.put(tx.rows, session.id, {"id": f"msg_{n}", "role": "user"}, run_id=None)
            for n in range(length)
        ]
    )
    run, turn = await host.turn(session.id)
    await turn.put_message(answer_info(run))
    await host.store.write(lambda tx: tx.rows.execute("PRAGMA wal_autocheckpoint = 0").fetchone())
    log = host.store.file.with_name(host.store.file.name + "-wal")

    async def counts() -> tuple[int, int]:
        rows = await host.store.write(lambda tx: tx.rows.total_changes, durable=False)
        return rows, log.stat().st_size // 4096

    before = await counts()
    await turn.put_part(tool_part("msg_a", status="completed"))
    after = await counts()
    return after[0] - before[0], after[1] - before[1]


async def test_g9_a_full_disk_ends_the_turn_clearly_and_gives_the_prompt_back(host: Host) -> None:
    session = await host.session()
    await host.answered(session.id, "kept")
    (pages,) = in_file(host.folder, "PRAGMA page_count")[0]
    await host.store.write(lambda tx: tx.rows.execute(f"PRAGMA max_page_count = {pages}").fetchone())
    big = "x" * 500_000

    with pytest.raises(
        StoreError, match="the disk is full; make room, then send again what was refused"
    ) as caught:
        await host.accepted(session.id, big)

    assert caught.value.status == 507
    assert texts(await host.history(session.id)) == [("user", "kept"), ("assistant", "hi")]
    await host.store.write(lambda tx: tx.rows.execute("PRAGMA max_page_count = 100000").fetchone())
    assert (await host.answered(session.id, big)).state == "active"


async def test_g9_text_that_was_lost_leaves_no_hole(host: Host) -> None:
    session = await host.session()
    run, turn = await host.turn(session.id)
    await turn.put_message(answer_info(run))
    await turn.put_part(text_part("msg_a"))
    (pages,) = in_file(host.folder, "PRAGMA page_count")[0]
    await turn.append("prt_t", "text", "first ")
    await turn.flush()  # type: ignore[misc]
    await host.store.write(lambda tx: tx.rows.execute(f"PRAGMA max_page_count = {pages}").fetchone())
    with pytest.raises(StoreError):
        await turn.append("prt_t", "text", "x" * 500_000)
    await host.store.write(lambda tx: tx.rows.execute("PRAGMA max_page_count = 100000").fetchone())

    with pytest.raises(StoreError, match="the disk is full"):
        await turn.append("prt_t", "text", " after the hole")
    await turn.finish(None, "failed", {"name": "UnknownError", "data": {"message": "the disk is full"}})

    assert texts(await host.history(session.id))[-1] == ("assistant", "first ")
