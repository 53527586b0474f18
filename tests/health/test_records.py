"""The version of the file, and how a release that changes the tables takes an older file along."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from fallback_plugin.health import records
from fallback_plugin.health.records import APPLICATION_ID, MIGRATIONS, Records
from fallback_plugin.health.trouble import HealthFileError
from fallback_plugin.model_ref import ModelRef

MODEL = ModelRef("openai", "gpt-5.1", "high")


def opened(file: Path) -> Records:
    return Records.open(file, timeout_s=1)[0]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Return a file of this release with one closed model."""
    file = tmp_path / "health.sqlite3"
    now = opened(file)
    now.close(MODEL, 60, reason="quota", now=1)
    now.shut()
    return file


def header(file: Path) -> tuple[int, int]:
    with closing(sqlite3.connect(file)) as reader:
        (application,) = reader.execute("PRAGMA application_id").fetchone()
        (version,) = reader.execute("PRAGMA user_version").fetchone()
    return application, version


def test_a_file_says_whose_it_is_and_its_version(file: Path) -> None:
    assert header(file) == (APPLICATION_ID, len(MIGRATIONS))


def test_an_older_file_is_taken_along(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    later = "ALTER TABLE closed ADD COLUMN failures INTEGER NOT NULL DEFAULT 1;"
    monkeypatch.setattr(records, "MIGRATIONS", (*MIGRATIONS, later))

    migrated = opened(file)

    assert migrated.closed() == {MODEL: 60}
    assert header(file) == (APPLICATION_ID, len(MIGRATIONS) + 1)
    migrated.shut()


def test_a_migration_that_fails_changes_nothing(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = "DROP TABLE closed; SELECT nonsense;"
    with monkeypatch.context() as patch:
        patch.setattr(records, "MIGRATIONS", (*MIGRATIONS, broken))
        with pytest.raises(HealthFileError, match="nonsense"):
            opened(file)

    unchanged = opened(file)
    assert unchanged.closed() == {MODEL: 60}
    unchanged.shut()


def test_a_time_that_another_process_lengthened_meanwhile_is_not_shortened(file: Path) -> None:
    now = opened(file)

    now.close(MODEL, 30, reason="rate_limit", now=2)

    assert now.closed() == {MODEL: 60}
    now.shut()


def test_an_empty_file_is_a_new_one(tmp_path: Path) -> None:
    (tmp_path / "health.sqlite3").touch()

    begun = opened(tmp_path / "health.sqlite3")

    assert begun.closed() == {}
    begun.shut()


def test_the_journal_is_a_log_that_readers_do_not_wait_for(file: Path) -> None:
    now = opened(file)

    assert now._connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    assert now._connection.execute("PRAGMA synchronous").fetchone() == (1,)
    now.shut()
