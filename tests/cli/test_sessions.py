"""Sessions as files: copied while they are used, and set aside."""

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from fallback_plugin.agent.store import Store
from fallback_plugin.cli.main import command_line

pytestmark = pytest.mark.anyio


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "sessions"


@pytest.fixture
async def store(folder: Path) -> Iterator[Store]:  # type: ignore[misc]  # anyio's plugin makes one of it
    store = Store.open(folder)
    yield store
    store.close()


def names(folder: Path) -> set[str]:
    return {str(file) for file in folder.iterdir()}


def run(*arguments: str | Path) -> tuple[int, str]:
    done = CliRunner().invoke(command_line, ["sessions", *map(str, arguments)])
    return done.exit_code, done.output


@pytest.mark.usefixtures("store")
async def test_a_backup_is_made_of_a_store_in_use(folder: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy.sqlite3"
    unfinished = tmp_path / "copy.sqlite3.unfinished"
    unfinished.write_text("of one that was interrupted")

    status, output = run("backup", copy, "--data-dir", folder)

    assert (status, output) == (0, f"copied to {copy}\n")
    assert sqlite3.connect(copy).execute("PRAGMA integrity_check").fetchone() == ("ok",)
    assert not unfinished.exists()
    assert copy.stat().st_mode & 0o077 == 0


@pytest.mark.usefixtures("store")
async def test_a_file_is_never_written_over(folder: Path, tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.write_text("mine")

    status, output = run("backup", precious, "--data-dir", folder)

    assert status == 1
    assert "there is such a file; name another one" in output
    assert precious.read_text() == "mine"


@pytest.mark.parametrize("command", [("backup", "copy"), ("set-aside",)])
def test_a_folder_without_sessions_is_said(command: tuple[str, ...], folder: Path) -> None:
    for _ in range(2):
        status, output = run(*command, "--data-dir", folder)

        assert status == 1
        assert "no sessions are kept here" in output
        assert not folder.exists()


async def test_a_store_in_use_is_not_set_aside(store: Store, folder: Path) -> None:
    status, output = run("set-aside", "--data-dir", folder)

    assert status == 1
    assert store.file.exists()
    assert "Traceback" not in output


async def test_a_file_is_set_aside_under_a_name_that_is_said(store: Store, folder: Path) -> None:
    store.close()

    status, output = run("set-aside", "--data-dir", folder)

    assert status == 0
    assert output.removeprefix("set aside as ").strip() in names(folder)
    assert not store.file.exists()
