"""The version of the file, and how a release that changes the tables takes an older file along."""

import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from fallback_plugin.health import SqliteHealth, records
from fallback_plugin.health.closure import Closure
from fallback_plugin.health.records import FORMAT, Records
from fallback_plugin.health.scope import Key
from fallback_plugin.health.trouble import HealthFileError
from fallback_plugin.sqlite_file import Format

KEY = Key("model", "openai", "gpt-5.1", "high")
RECORD = Closure(60, "quota", 1, 1)


def opened(file: Path) -> Records:
    return Records.open(file, timeout_s=1)[0]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Return a file of this release with one closed model."""
    file = tmp_path / "health.sqlite3"
    now = opened(file)
    now.take_in({KEY: RECORD})
    now.shut()
    return file


@pytest.fixture
def first_release(tmp_path: Path) -> sqlite3.Connection:
    """Return a file as the first release made it, open."""
    connection = sqlite3.connect(tmp_path / "first.sqlite3", isolation_level=None)
    connection.executescript(
        f"{FORMAT.migrations[0]} PRAGMA application_id = {FORMAT.application_id}; PRAGMA user_version = 1"
    )
    return connection


def header(file: Path) -> tuple[int, int]:
    with closing(sqlite3.connect(file)) as reader:
        (application,) = reader.execute("PRAGMA application_id").fetchone()
        (version,) = reader.execute("PRAGMA user_version").fetchone()
    return application, version


def test_a_file_says_whose_it_is_and_its_version(file: Path) -> None:
    assert header(file) == (FORMAT.application_id, FORMAT.newest)


def with_a_step(statements: str) -> Format:
    """Return the format of a later release."""
    return replace(FORMAT, migrations=(*FORMAT.migrations, statements))


def test_an_older_file_is_taken_along(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    later = "ALTER TABLE closures ADD COLUMN note TEXT NOT NULL DEFAULT '';"
    monkeypatch.setattr(records, "FORMAT", with_a_step(later))

    migrated = opened(file)

    assert migrated.closures() == {KEY: RECORD}
    assert header(file) == (FORMAT.application_id, FORMAT.newest + 1)
    migrated.shut()


def test_a_migration_that_fails_changes_nothing(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = "DROP TABLE closures; SELECT nonsense;"
    with monkeypatch.context() as patch:
        patch.setattr(records, "FORMAT", with_a_step(broken))
        with pytest.raises(HealthFileError, match="nonsense"):
            opened(file)

    unchanged = opened(file)
    assert unchanged.closures() == {KEY: RECORD}
    unchanged.shut()


@pytest.mark.parametrize("name", ["gpt-5.1", "é…💥", "a'b\"c\\d", "a\nb"])
def test_what_the_first_release_closed_stays_closed(
    tmp_path: Path, first_release: sqlite3.Connection, name: str
) -> None:
    with closing(first_release):
        first_release.execute("INSERT INTO closed VALUES ('p', ?, '', 100, 'quota', 1)", (name,))
        first_release.execute("INSERT INTO closed VALUES ('p', ?, 'high', 200, 'auth', 2)", (name,))
        first_release.execute("INSERT INTO leases VALUES ('failure', 'a', 100)")

    migrated = SqliteHealth(tmp_path / "first.sqlite3", on_trouble=pytest.fail)

    assert migrated.view(50).entries() == (
        (Key("model", "p", name), Closure(100, "quota", 1, 1)),
        (Key("model", "p", name, "high"), Closure(200, "auth", 1, 2)),
    )
    assert not migrated.claim("failure", "b", 50, ttl_s=10)
    assert header(tmp_path / "first.sqlite3") == (FORMAT.application_id, FORMAT.newest)
    migrated.shut()


def test_a_move_that_fails_leaves_the_file_as_it_was_and_usable(file: Path) -> None:
    now = opened(file)

    def fail(_: Closure | None) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        now.change(KEY, fail)

    assert now.change(KEY, lambda record: record) == RECORD
    now.shut()


def test_an_empty_file_is_a_new_one(tmp_path: Path) -> None:
    (tmp_path / "health.sqlite3").touch()

    begun = opened(tmp_path / "health.sqlite3")

    assert begun.closures() == {}
    begun.shut()


def test_the_journal_is_a_log_that_readers_do_not_wait_for(file: Path) -> None:
    now = opened(file)

    assert now._connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    assert now._connection.execute("PRAGMA synchronous").fetchone() == (1,)
    now.shut()
