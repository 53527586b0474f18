"""A project's sessions are found wherever in it the host starts, and after it has moved."""

import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from fallback_plugin.agent.data_place import default_data_folder, default_data_place
from fallback_plugin.agent.host import Place, open_host
from fallback_plugin.agent.project_record import ProjectRecord, project_root
from fallback_plugin.agent.store import sessions
from fallback_plugin.agent.store.folder import DATABASE
from fallback_plugin.settings import Settings

pytestmark = pytest.mark.anyio


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    return {"XDG_DATA_HOME": str(tmp_path / "data")}


def repository(folder: Path) -> Path:
    (folder / ".git").mkdir(parents=True)
    return folder


async def begin_session(directory: Path, environ: Mapping[str, str], title: str = "A") -> Path:
    """Start a host as ``serve`` does, begin a session there, and return the data folder."""
    data = default_data_place(directory, environ, create=True).folder
    async with open_host(Settings(), Place(data=data, directory=directory, environ=environ)) as host:
        await host.sessions.create(str(directory), title=title)
    return data


async def served_sessions(directory: Path, environ: Mapping[str, str]) -> list[tuple[str, str]]:
    data = default_data_place(directory, environ, create=True).folder
    async with open_host(Settings(), Place(data=data, directory=directory, environ=environ)) as host:
        found = await host.store.read(sessions.newest)
    return sorted((session.title, session.directory) for session in found)


async def test_P18_a_subfolder_of_a_repository_has_the_repositorys_sessions(
    tmp_path: Path, environ: dict[str, str]
) -> None:
    root = repository(tmp_path / "project")
    inside = root / "a" / "b"
    inside.mkdir(parents=True)

    data = await begin_session(root, environ, "root")

    assert await begin_session(inside, environ, "inside") == data
    assert await served_sessions(root, environ) == [("inside", str(inside)), ("root", str(root))]


@pytest.mark.parametrize("times", [1, 3])
async def test_P18_sessions_of_a_repository_survive_its_moves(
    tmp_path: Path, environ: dict[str, str], times: int
) -> None:
    root = repository(tmp_path / "project")
    (root / "sub").mkdir()
    await begin_session(root, environ, "root")
    await begin_session(root / "sub", environ, "sub")
    for number in range(times):
        root = root.rename(tmp_path / f"moved {number}")
        shown = await served_sessions(root, environ)
        assert shown == [("root", str(root)), ("sub", str(root / "sub"))]
        assert await served_sessions(root / "sub", environ) == shown


async def test_P18_a_copy_of_a_repository_does_not_take_the_sessions_of_the_first(
    tmp_path: Path, environ: dict[str, str]
) -> None:
    root = repository(tmp_path / "project")
    await begin_session(root, environ)
    copy = Path(shutil.copytree(root, tmp_path / "copy"))

    assert await served_sessions(copy, environ) == []
    assert await served_sessions(root, environ) == [("A", str(root))]


async def test_P18_a_folder_without_a_repository_is_offered_its_old_sessions(
    tmp_path: Path, environ: dict[str, str]
) -> None:
    root = tmp_path / "notes"
    root.mkdir()
    data = await begin_session(root, environ)
    root = root.rename(tmp_path / "renamed")

    place = default_data_place(root, environ)
    assert place.folder != data
    (notice,) = place.notices
    assert str(tmp_path / "notes") in notice
    assert f"--data-dir {data}" in notice
    async with open_host(Settings(), Place(data=data, directory=root, environ=environ)) as host:
        found = await host.store.read(sessions.newest)
    assert [session.directory for session in found] == [str(root)]


async def test_P18_a_repository_made_later_keeps_the_sessions(
    tmp_path: Path, environ: dict[str, str]
) -> None:
    root = tmp_path / "project"
    root.mkdir()
    await begin_session(root, environ)
    repository(root)
    assert await served_sessions(root, environ) == [("A", str(root))]
    root = root.rename(tmp_path / "moved")

    assert await served_sessions(root, environ) == [("A", str(root))]


async def test_P18_sessions_that_a_subfolder_had_by_itself_are_told_of(
    tmp_path: Path, environ: dict[str, str]
) -> None:
    inside = repository(tmp_path / "project") / "sub"
    inside.mkdir()
    own = default_data_folder(inside, environ)
    own.mkdir(parents=True)
    (own / DATABASE).touch()

    place = default_data_place(inside, environ)

    assert place.folder != own
    assert [f"--data-dir {own}" in notice for notice in place.notices] == [True]


def test_P18_a_working_tree_of_its_own_is_a_project_of_its_own(tmp_path: Path) -> None:
    git = shutil.which("git")
    if git is None:
        pytest.skip("git is not installed")
    root, tree = tmp_path / "project", tmp_path / "tree"
    author = ("-c", "user.name=a", "-c", "user.email=a@example.org")
    for command in (
        ("init", "-q", root),
        ("-C", root, *author, "commit", "-q", "--allow-empty", "-m", "first"),
        ("-C", root, "worktree", "add", "-q", tree),
    ):
        subprocess.run([git, *command], check=True, capture_output=True)

    first, second = ProjectRecord.of(root, create=True), ProjectRecord.of(tree, create=True)

    assert first.is_certain
    assert second.is_certain
    assert first.name != second.name
    assert ProjectRecord.of(root) == first
    status = subprocess.run([git, "-C", root, "status", "--porcelain"], check=True, capture_output=True)
    assert status.stdout == b""


def test_P18_a_home_that_is_a_repository_is_no_project(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(repository(tmp_path / "home")))
    inside = tmp_path / "home" / "project"
    inside.mkdir()

    assert project_root(inside) == inside


@pytest.mark.parametrize("record", ["", "[]", "{", '{"root": 1}', '{"root": "/x", "name": null}', "\x00"])
def test_P18_a_record_that_makes_no_sense_is_passed_over(
    tmp_path: Path, environ: dict[str, str], record: str
) -> None:
    root = repository(tmp_path / "project")
    other = default_data_folder(tmp_path / "other", environ)
    other.mkdir(parents=True)
    (other / DATABASE).touch()
    (other / "project.json").write_text(record)

    assert default_data_place(root, environ, create=True).folder == default_data_folder(root, environ)
