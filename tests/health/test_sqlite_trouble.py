"""A file that cannot be used never stops anything: it is said once, and memory takes over."""

import fcntl
import os
import sqlite3
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Final, NoReturn

import pytest

from fallback_plugin.health import SqliteHealth
from fallback_plugin.health.records import Records
from fallback_plugin.health.scope import keys_of
from fallback_plugin.health.trouble import HealthFileError
from fallback_plugin.model_ref import ModelRef
from tests.health.cooling import cooling

MODEL: Final = ModelRef("openai", "gpt-5.1", "high")
OTHER: Final = ModelRef("anthropic", "claude-opus-4-5")
NOW: Final = 1_800_000_000.0


class Watched(SqliteHealth):
    """A store whose troubles can be asked for."""

    def __init__(self, file: Path) -> None:
        self.troubles: list[str] = []
        super().__init__(file, on_trouble=self.troubles.append, busy_timeout_s=0.002)

    @property
    def connection(self) -> sqlite3.Connection:
        records = self._records
        assert records
        return records._connection


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "health.sqlite3"


@pytest.fixture
def health(file: Path) -> Iterator[Watched]:
    with closing_health(file) as store:
        yield store


@contextmanager
def closing_health(file: Path) -> Iterator[Watched]:
    store = Watched(file)
    yield store
    store.shut()


def assert_works_in_memory(health: Watched, *, because: str) -> None:
    """Show that the store does all it should, and spoke once."""
    assert health.claim("new failure", "a", NOW, ttl_s=60)
    assert not health.claim("new failure", "b", NOW, ttl_s=60)
    health.close(OTHER, "model", NOW + 5, reason="quota", now=NOW)
    assert cooling(health, NOW)[OTHER] == NOW + 5
    health.clear(keys_of(OTHER))
    assert OTHER not in cooling(health, NOW)
    (trouble,) = health.troubles
    assert because in trouble
    assert trouble.endswith("Until the end of this process, closed models and leases are known to it alone")


def test_a_file_locked_for_long(file: Path, health: Watched) -> None:
    health.view(NOW)
    with closing(sqlite3.connect(file, isolation_level=None)) as locker:
        locker.execute("BEGIN IMMEDIATE")

        health.claim("failure", "a", NOW, ttl_s=60)

    assert_works_in_memory(health, because=f"{file}: another process keeps it locked; end that process")


def test_a_file_whose_opening_another_process_does_not_end(file: Path, health: Watched) -> None:
    folder = os.open(file.parent, os.O_RDONLY)
    fcntl.flock(folder, fcntl.LOCK_EX)

    health.view(NOW)
    os.close(folder)

    assert_works_in_memory(health, because=f"{file}: another process keeps it locked")
    assert not file.exists()


def test_what_was_known_stays_known_when_the_file_is_lost(file: Path, health: Watched) -> None:
    health.close(MODEL, "model", NOW + 60, reason="quota", now=NOW)
    health.claim("failure", "a", NOW, ttl_s=60)
    with closing(sqlite3.connect(file, isolation_level=None)) as locker:
        locker.execute("BEGIN IMMEDIATE")

        assert not health.claim("failure", "b", NOW, ttl_s=60)

    assert cooling(health, NOW) == {MODEL: NOW + 60}
    assert_works_in_memory(health, because="locked")


def test_a_close_that_meets_the_trouble_is_kept(file: Path, health: Watched) -> None:
    health.view(NOW)
    with closing(sqlite3.connect(file, isolation_level=None)) as locker:
        locker.execute("BEGIN IMMEDIATE")

        health.close(MODEL, "model", NOW + 60, reason="quota", now=NOW)

    assert cooling(health, NOW) == {MODEL: NOW + 60}


def test_a_full_disk(health: Watched) -> None:
    health.view(NOW)
    health.connection.execute("PRAGMA max_page_count = 1")

    health.claim("x" * 100_000, "a", NOW, ttl_s=60)

    assert_works_in_memory(health, because="the disk is full; make room")


def test_a_read_only_file(health: Watched) -> None:
    health.view(NOW)
    health.connection.execute("PRAGMA query_only = ON")

    health.claim("failure", "a", NOW, ttl_s=60)

    assert_works_in_memory(health, because="it is read-only; make it and its folder writable")


def test_a_folder_without_permission_to_write(file: Path, health: Watched) -> None:
    file.parent.chmod(0o500)
    if os.access(file.parent, os.W_OK):
        pytest.skip("root may write everywhere")

    health.view(NOW)

    file.parent.chmod(0o700)
    assert_works_in_memory(health, because="name a place in health.file that can be written")


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("")
    health = Watched(tmp_path / "taken" / "health.sqlite3")

    health.view(NOW)

    assert_works_in_memory(health, because="name a place in health.file that can be written")


def test_a_folder_in_the_place_of_the_file(file: Path, health: Watched) -> None:
    file.mkdir()

    health.view(NOW)

    assert_works_in_memory(health, because=f"{file}: it cannot be opened")


def test_a_file_of_a_newer_release_stays_as_it_is(file: Path, health: Watched) -> None:
    with closing(sqlite3.connect(file)) as newer:
        newer.execute("PRAGMA application_id = 0x46424B48")
        newer.execute("PRAGMA user_version = 99")
    before = file.read_bytes()

    health.claim("failure", "a", NOW, ttl_s=60)

    assert_works_in_memory(health, because="written by a newer release of fallback-plugin")
    assert file.read_bytes() == before


def test_a_database_of_another_program_stays_as_it_is(file: Path, health: Watched) -> None:
    with closing(sqlite3.connect(file)) as theirs:
        theirs.execute("CREATE TABLE bookmarks (url TEXT)")
    before = file.read_bytes()

    health.claim("failure", "a", NOW, ttl_s=60)

    assert_works_in_memory(health, because="a database of another program; name another file")
    assert file.read_bytes() == before


def test_a_python_without_sqlite(health: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, Records.__module__)
    monkeypatch.setitem(sys.modules, "sqlite3", None)

    health.view(NOW)

    assert_works_in_memory(health, because="this Python has no SQLite")


def test_no_call_comes_back_to_a_file_that_was_given_up(file: Path, health: Watched) -> None:
    file.mkdir()
    health.view(NOW)
    file.rmdir()

    health.claim("failure", "a", NOW, ttl_s=60)

    assert not file.exists()


@pytest.mark.parametrize("content", [b"no database at all\n" * 500, b"SQLite format 3\0" + b"\xff" * 5000])
def test_a_damaged_file_is_kept_aside_and_a_new_one_begun(
    file: Path, health: Watched, content: bytes
) -> None:
    file.write_bytes(content)

    assert health.claim("failure", "a", NOW, ttl_s=60)

    aside = file.with_name("health.sqlite3.damaged-1")
    assert aside.read_bytes() == content
    (trouble,) = health.troubles
    assert f"{file} was damaged" in trouble
    assert f"kept as {aside}" in trouble
    with closing_health(file) as other:
        assert not other.claim("failure", "b", NOW, ttl_s=60)


def test_damage_inside_of_a_database_is_found(file: Path, health: Watched) -> None:
    with closing_health(file) as before:
        for number in range(500):
            before.close(ModelRef("p", str(number)), "model", NOW + 60, reason="quota", now=NOW)
    content = bytearray(file.read_bytes())
    content[4 * 4096 : 5 * 4096] = b"\xa5" * 4096
    file.write_bytes(content)

    health.claim("failure", "a", NOW, ttl_s=60)

    assert file.with_name("health.sqlite3.damaged-1").read_bytes() == content
    assert cooling(health, NOW) == {}
    assert len(health.troubles) == 1


def test_the_log_of_a_damaged_file_that_others_hold_goes_with_it(file: Path, health: Watched) -> None:
    with closing_health(file) as holder:
        holder.close(MODEL, "model", NOW + 60, reason="quota", now=NOW)
        holder.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        with file.open("r+b") as damaged_file:
            damaged_file.write(b"no database at all\n")

        health.close(OTHER, "model", NOW + 60, reason="quota", now=NOW)

        assert file.with_name("health.sqlite3.damaged-1-wal").exists()
        with closing_health(file) as other:
            assert cooling(other, NOW) == {OTHER: NOW + 60}


def test_every_damaged_file_is_kept(file: Path) -> None:
    for content in (b"first" * 500, b"second" * 500):
        file.write_bytes(content)
        with closing_health(file) as health:
            health.view(NOW)

    assert file.with_name("health.sqlite3.damaged-1").read_bytes() == b"first" * 500
    assert file.with_name("health.sqlite3.damaged-2").read_bytes() == b"second" * 500


def test_a_file_found_damaged_that_another_process_replaced_is_simply_used(
    file: Path, health: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    health.close(MODEL, "model", NOW + 60, reason="quota", now=NOW)
    with closing_health(file) as other:
        other.close(OTHER, "model", NOW + 60, reason="quota", now=NOW)
    monkeypatch.setattr(health._records, "revision", damaged)

    assert cooling(health, NOW) == {MODEL: NOW + 60, OTHER: NOW + 60}

    assert health.troubles == []
    assert list(file.parent.glob("*.damaged-*")) == []


def test_damage_that_the_check_does_not_see_ends_in_memory(
    file: Path, health: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    health.close(MODEL, "model", NOW + 60, reason="quota", now=NOW)
    monkeypatch.setattr(Records, "claim", damaged)

    assert health.claim("failure", "a", NOW, ttl_s=60)

    assert cooling(health, NOW) == {MODEL: NOW + 60}
    assert file.exists()
    assert_works_in_memory(health, because="malformed")


def damaged(*_: object, **__: object) -> NoReturn:
    raise HealthFileError("malformed", damaged=True)
