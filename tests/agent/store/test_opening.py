"""A data folder is opened: one host at a time, and never a file that is not whole."""

import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Final

import pytest

from fallback_plugin.agent.store import Store
from fallback_plugin.agent.store.folder import DATABASE, DataFolder, set_aside
from fallback_plugin.agent.store.opening import check_sqlite
from fallback_plugin.agent.store.schema import FORMAT
from fallback_plugin.errors import StoreError
from tests.agent.persisted import Host, in_file

HOLD: Final = """
import sys
from pathlib import Path
from fallback_plugin.agent.store import Store
Store.open(Path(sys.argv[1]))
print("open", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "data"


def open_and_close(folder: Path) -> None:
    Store.open(folder).close()


def test_it_is_begun_where_there_is_none_for_its_owner_alone(folder: Path) -> None:
    store = Store.open(folder)

    modes = {path.name: path.stat().st_mode & 0o777 for path in (folder, *folder.iterdir())}
    store.close()

    assert modes.pop("data") == 0o700
    assert set(modes) >= {DATABASE, "lock"}
    assert set(modes.values()) == {0o600}


def test_its_journal_is_a_write_ahead_log(folder: Path) -> None:
    open_and_close(folder)

    assert in_file(folder, "PRAGMA journal_mode") == [("wal",)]


def test_a_disk_without_shared_memory_gets_a_rollback_journal(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The VFS ``unix-dotfile`` is SQLite's own for disks that cannot share memory."""
    connect = sqlite3.connect
    monkeypatch.setattr(
        sqlite3,
        "connect",
        lambda file, **given: connect(f"{file.as_uri()}?vfs=unix-dotfile", uri=True, **given),
    )

    store = Store.open(folder)
    store.close()

    assert "its disk cannot share memory" in store.notices[0]
    monkeypatch.undo()
    assert in_file(folder, "PRAGMA journal_mode") == [("delete",)]


def test_report_S14_two_hosts_never_share_a_folder(folder: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, folder],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    ) as other:
        assert other.stdout
        assert other.stdout.readline() == "open\n"

        with pytest.raises(
            StoreError, match=f"another host \\(process {other.pid}\\) uses it; stop that one"
        ):
            Store.open(folder)
        other.kill()

    open_and_close(folder)


def test_two_hosts_in_one_process_do_not_share_it_either(folder: Path) -> None:
    store = Store.open(folder)

    with pytest.raises(StoreError, match="another host"):
        Store.open(folder)

    store.close()
    open_and_close(folder)


def test_H12_a_file_that_was_emptied_is_not_taken_for_a_new_one(folder: Path) -> None:
    open_and_close(folder)
    (folder / DATABASE).write_bytes(b"")

    for _ in range(2):
        with pytest.raises(StoreError, match="empty, though sessions were kept in it") as refused:
            Store.open(folder)
        assert "sessions set-aside" in str(refused.value)
    assert (folder / DATABASE).stat().st_size == 0

    set_aside(folder)
    open_and_close(folder)


@pytest.mark.parametrize("suffix", ["-wal", "-journal"])
def test_H12_an_empty_file_whose_log_is_there_keeps_its_log(folder: Path, suffix: str) -> None:
    folder.mkdir()
    (folder / DATABASE).touch()
    log = folder / f"{DATABASE}{suffix}"
    log.write_bytes(b"pages")

    with pytest.raises(StoreError, match="empty, though sessions were kept in it"):
        Store.open(folder)

    assert log.read_bytes() == b"pages"


def test_H12_an_empty_file_of_a_start_that_was_cut_off_is_begun(folder: Path) -> None:
    folder.mkdir()
    (folder / DATABASE).touch()
    (folder / "lock").write_text("12345")

    open_and_close(folder)
    open_and_close(folder)


def test_H12_a_file_that_was_taken_away_is_begun_anew_also_after_a_start_that_was_cut_off(
    folder: Path,
) -> None:
    open_and_close(folder)
    (folder / DATABASE).unlink()
    DataFolder.enter(folder).leave()
    held = DataFolder.enter(folder)
    held.check_not_emptied()
    held.make_private()
    held.leave()

    open_and_close(folder)


def test_a_file_of_a_newer_release_is_left_alone(folder: Path) -> None:
    open_and_close(folder)
    in_file(folder, f"PRAGMA user_version = {FORMAT.newest + 1}")
    before = (folder / DATABASE).read_bytes()

    with pytest.raises(StoreError, match="written by a newer release of fallback-plugin"):
        Store.open(folder)

    assert (folder / DATABASE).read_bytes() == before


def test_a_database_of_another_program_is_left_alone(folder: Path) -> None:
    folder.mkdir()
    in_file(folder, "CREATE TABLE theirs (id)")

    with pytest.raises(StoreError, match="a database of another program; name another folder"):
        Store.open(folder)

    assert in_file(folder, "SELECT name FROM sqlite_master") == [("theirs",)]


def damage(file: Path) -> None:
    with file.open("r+b") as content:
        content.seek(4096)
        content.write(b"\xff" * 4096 * 4)


def test_a_file_that_is_no_database_is_told_and_left_as_it_is(folder: Path) -> None:
    folder.mkdir()
    (folder / DATABASE).write_bytes(b"not a database " * 1000)

    with pytest.raises(StoreError, match="it is damaged, and was left as it is; put a backup in its place"):
        Store.open(folder)

    assert (folder / DATABASE).read_bytes() == b"not a database " * 1000


def test_damage_is_looked_for_after_a_start_that_did_not_end_well(folder: Path) -> None:
    open_and_close(folder)
    in_file(folder, "UPDATE boot SET stopped = NULL")
    damage(folder / DATABASE)

    with pytest.raises(StoreError, match=f"{folder / DATABASE}: it is damaged"):
        Store.open(folder)


def test_a_damaged_file_is_set_aside_when_a_person_asks_for_it(folder: Path) -> None:
    folder.mkdir()
    (folder / DATABASE).write_bytes(b"not a database " * 1000)

    aside = set_aside(folder)

    assert aside.read_bytes() == b"not a database " * 1000
    open_and_close(folder)


def test_a_folder_in_use_is_not_set_aside(folder: Path) -> None:
    with closing(Store.open(folder)), pytest.raises(StoreError, match="another host"):
        set_aside(folder)


def test_a_folder_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    with pytest.raises(StoreError, match="name a folder that can be written"):
        Store.open(tmp_path / "file" / "data")


def test_an_old_sqlite_is_refused() -> None:
    with pytest.raises(StoreError, match=r"this Python has SQLite 3\.34\.1; use one that has 3\.35\.0"):
        check_sqlite((3, 34, 1))


def test_one_with_a_known_defect_asks_nothing_of_the_user_and_is_noted(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level("DEBUG"):
        check_sqlite((3, 40, 1))

    (record,) = caplog.records
    assert "WAL-reset defect" in record.getMessage()
    assert record.levelname == "DEBUG"


def test_each_start_has_a_number_of_its_own(folder: Path) -> None:
    boots = []
    for _ in range(3):
        host = Host(folder)
        boots.append(host.store.boot)
        host.close()

    assert boots == [1, 2, 3]
    assert in_file(folder, "SELECT count(*) FROM boot WHERE stopped IS NULL") == [(0,)]
