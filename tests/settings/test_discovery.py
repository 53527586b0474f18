from pathlib import Path

from fallback_plugin.settings.discovery import candidate_files, project_files, user_file


def test_the_user_file_follows_the_xdg_folder() -> None:
    assert user_file({"XDG_CONFIG_HOME": "/x", "HOME": "/h"}) == Path("/x/fallback-plugin/fallback.toml")


def test_a_relative_xdg_folder_is_ignored() -> None:
    assert user_file({"XDG_CONFIG_HOME": "x", "HOME": "/h"}) == Path(
        "/h/.config/fallback-plugin/fallback.toml"
    )


def test_without_a_home_variable_the_systems_home_counts() -> None:
    assert user_file({}) == Path.home() / ".config/fallback-plugin/fallback.toml"


def test_a_project_is_searched_upwards_to_its_root_nearest_first() -> None:
    assert project_files(Path("/a/b/c"), Path("/a/b")) == (
        Path("/a/b/c/fallback.toml"),
        Path("/a/b/c/.opencode/fallback.toml"),
        Path("/a/b/fallback.toml"),
        Path("/a/b/.opencode/fallback.toml"),
    )


def test_outside_of_a_worktree_only_the_folder_itself_is_searched() -> None:
    own = (Path("/a/b/fallback.toml"), Path("/a/b/.opencode/fallback.toml"))
    assert project_files(Path("/a/b"), Path("/")) == own
    assert project_files(Path("/a/b"), Path("/elsewhere")) == own


def test_an_unnamed_worktree_is_the_repository_around_the_folder(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / "src").mkdir()
    assert project_files(tmp_path / "src")[2] == tmp_path / "fallback.toml"
    assert len(project_files(tmp_path / "src")) == 4


def test_every_candidate_is_named_once() -> None:
    environ = {"XDG_CONFIG_HOME": "/x"}
    files = candidate_files(directory=Path("/x/fallback-plugin"), worktree=Path("/"), environ=environ)
    assert files == (
        Path("/x/fallback-plugin/fallback.toml"),
        Path("/x/fallback-plugin/.opencode/fallback.toml"),
    )
