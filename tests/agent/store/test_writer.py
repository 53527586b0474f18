"""Jobs: one writer, each job whole or not at all, whoever waits for it."""

import asyncio
import sqlite3
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import anyio
import pytest

from fallback_plugin.agent.records import HostEvent
from fallback_plugin.agent.store import Store, Transaction
from fallback_plugin.errors import AgentError, StoreError
from tests.agent.persisted import Host, in_file

pytestmark = pytest.mark.anyio


def begin_session(tx: Transaction, name: str) -> str:
    tx.rows.execute(
        "INSERT INTO session (id, directory, title, titled_by, created, updated) "
        "VALUES (?, '', '', 'host', 0, 0)",
        (name,),
    )
    tx.emit("test", {"name": name}, session_id=name)
    return name


def refuse(tx: Transaction) -> None:
    begin_session(tx, "refused")
    raise AgentError("no")


class Held:
    """A job that keeps the writer until it is let go, so that what follows lands in one transaction."""

    def __init__(self) -> None:
        self.began = threading.Event()
        self.go_on = threading.Event()

    def __call__(self, _: Transaction) -> None:
        self.began.set()
        assert self.go_on.wait(5)


async def names(store: Store) -> list[str]:
    return await store.read(
        lambda rows: [name for (name,) in rows.execute("SELECT id FROM session ORDER BY id")]
    )


async def test_a_job_that_raises_takes_back_itself_and_no_other(host: Host) -> None:
    held = Held()
    waiting: list[asyncio.Future[Any]] = [
        host.store.submit(held),
        host.store.submit(lambda tx: begin_session(tx, "a")),
        host.store.submit(refuse),
        host.store.submit(lambda tx: begin_session(tx, "b")),
    ]
    held.go_on.set()

    answers = await asyncio.gather(*waiting, return_exceptions=True)

    assert answers[1::2] == ["a", "b"]
    assert isinstance(answers[2], AgentError)
    assert await names(host.store) == ["a", "b"]
    assert [event.properties["name"] for event in host.logged()] == ["a", "b"]


async def test_a_job_whose_caller_was_cancelled_is_done_all_the_same(host: Host) -> None:
    held = Held()
    host.store.submit(held)
    with anyio.CancelScope() as scope:
        scope.cancel()
        await host.store.write(lambda tx: begin_session(tx, "kept"))
    held.go_on.set()

    await host.store.write(lambda tx: begin_session(tx, "next"))

    assert scope.cancelled_caught
    assert await names(host.store) == ["kept", "next"]
    assert [event.properties["name"] for event in host.logged()] == ["kept", "next"]


async def test_events_are_published_in_the_order_of_the_commits_before_the_caller_goes_on(host: Host) -> None:
    heard: list[str] = []
    host.store.listen(lambda events: heard.extend(event.properties["name"] for event in events))

    async def caller(name: str) -> None:
        await host.store.write(lambda tx: begin_session(tx, name), durable=name != "b")
        heard.append(f"{name} goes on")

    async with anyio.create_task_group() as group:
        for name in "abc":
            group.start_soon(caller, name)

    assert [name for name in heard if " " not in name] == ["a", "b", "c"]
    assert all(heard.index(name) < heard.index(f"{name} goes on") for name in "abc")


async def test_a_listener_that_raises_keeps_no_caller_waiting(host: Host) -> None:
    told: list[dict[str, object]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: told.append(context))

    def listener(_: Sequence[HostEvent]) -> None:
        raise ZeroDivisionError

    host.store.listen(listener)
    with anyio.fail_after(5):
        await host.store.write(lambda tx: begin_session(tx, "a"))

    assert [type(context["exception"]) for context in told] == [ZeroDivisionError]


async def test_stable_storage_is_waited_for_only_where_it_is_asked_for(host: Host) -> None:
    def durability(tx: Transaction) -> int:
        return int(tx.rows.execute("PRAGMA synchronous").fetchone()[0])

    assert [await host.store.write(durability, durable=full) for full in (True, False, True)] == [2, 1, 2]


async def test_a_reader_sees_one_state_and_cannot_write(host: Host) -> None:
    await host.store.write(lambda tx: begin_session(tx, "a"))

    with pytest.raises(StoreError, match="read-only"):
        await host.store.read(lambda rows: rows.execute("DELETE FROM session"))

    assert await names(host.store) == ["a"]


async def test_what_was_queued_at_the_close_is_done(host: Host) -> None:
    held = Held()
    host.store.submit(held)
    last = host.store.submit(lambda tx: begin_session(tx, "last"))
    held.go_on.set()

    host.close()

    assert in_file(host.folder, "SELECT id FROM session") == [("last",)]
    assert await last == "last"


async def test_a_closed_store_says_so(host: Host) -> None:
    host.close()

    with pytest.raises(StoreError, match="the host is stopping") as caught:
        await host.store.write(refuse)
    with pytest.raises(StoreError, match="the host is stopping"):
        await host.store.read(lambda rows: rows)
    assert caught.value.status == 503


async def test_a_clean_close_leaves_one_file(host: Host) -> None:
    await host.store.write(lambda tx: begin_session(tx, "a"))

    host.close()

    assert sorted(path.name for path in host.folder.iterdir()) == ["lock", "sessions.sqlite3"]


async def test_g9_a_full_disk_is_told_and_what_was_stored_can_still_be_read(host: Host) -> None:
    await host.store.write(lambda tx: begin_session(tx, "before"))
    await host.store.write(lambda tx: tx.rows.execute("PRAGMA max_page_count = 1").fetchone())
    held = Held()
    waiting: list[asyncio.Future[Any]] = [
        host.store.submit(held),
        host.store.submit(lambda tx: tx.emit("big", {"text": "x" * 1_000_000}, session_id=None)),
        host.store.submit(lambda tx: tx.rows.execute("UPDATE session SET title = 'small'").rowcount),
    ]
    held.go_on.set()

    _, big, small = await asyncio.gather(*waiting, return_exceptions=True)

    assert isinstance(big, StoreError)
    assert "the disk is full; make room, then send again what was refused" in str(big)
    assert (big.status, small) == (507, 1)
    assert await names(host.store) == ["before"]


async def test_a_disk_that_is_full_at_the_commit_is_told_too(host: Host) -> None:
    def full(_: Transaction) -> None:
        error = sqlite3.OperationalError("disk I/O error")
        error.sqlite_errorcode = sqlite3.SQLITE_IOERR_WRITE
        raise error

    with pytest.raises(StoreError, match=f"{host.store.file}: it cannot be read or written"):
        await host.store.write(full)


async def test_a_backup_is_a_whole_store(host: Host, tmp_path: Path) -> None:
    await host.store.write(lambda tx: begin_session(tx, "a"))
    copy = tmp_path / "copy"
    copy.mkdir()

    await host.store.backup(copy / "sessions.sqlite3")

    assert (copy / "sessions.sqlite3").stat().st_mode & 0o777 == 0o600
    other = Host(copy)
    assert await names(other.store) == ["a"]
    other.close()


async def test_a_backup_replaces_no_file(host: Host, tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("mine")

    with pytest.raises(StoreError, match="there is such a file"):
        await host.store.backup(tmp_path / "precious")

    assert (tmp_path / "precious").read_text() == "mine"
