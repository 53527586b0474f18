"""A broken file is read as what it held before, by whoever starts anew, with no more power than it had."""

import os
from pathlib import Path

import pytest

from fallback_plugin.settings import LastGoodFiles, LoadedSettings, load_settings
from fallback_plugin.settings.last_good import MAX_BYTES, MAX_COPIES
from tests.settings.conftest import Machine


@pytest.fixture
def copies(tmp_path: Path) -> LastGoodFiles:
    return LastGoodFiles.below_state({"XDG_STATE_HOME": str(tmp_path / "state")})


def recovered(machine: Machine, copies: LastGoodFiles) -> LoadedSettings:
    environ = {"HOME": str(machine.home)}
    return load_settings(directory=machine.project, environ=environ, last_good=copies.text)


def test_P11_a_broken_file_counts_as_what_it_held_before(machine: Machine, copies: LastGoodFiles) -> None:
    machine.write_user("[fallback]\nmax_attempts = 3\n")
    copies.keep(machine.load().files)

    for broken in ("[fallback\n", "[fallback]\nmax_attempts = -1\n", "[fallback]\nmax_atempts = 3\n"):
        machine.write_user(broken)
        assert recovered(machine, copies).settings.fallback.max_attempts == 3


def test_P11_the_other_file_counts_as_it_is_now(machine: Machine, copies: LastGoodFiles) -> None:
    machine.write_user("[fallback]\nmax_attempts = 3\n")
    copies.keep(machine.load().files)
    machine.write_user("broken")
    machine.write_project('[fallback]\ncooldown = "7s"\n')

    settings = recovered(machine, copies).settings

    assert (settings.fallback.max_attempts, settings.fallback.cooldown) == (3, 7)


def test_P11_a_broken_file_of_which_nothing_is_known_is_left_out(
    machine: Machine, copies: LastGoodFiles
) -> None:
    machine.write_user("[fallback]\nmax_attempts = 3\n")
    machine.write_project("broken")

    loaded = recovered(machine, copies)

    assert loaded.settings.fallback.max_attempts == 3
    assert loaded.files == (machine.user_file,)


def test_P11_a_projects_copy_has_no_more_power_than_its_file(machine: Machine, copies: LastGoodFiles) -> None:
    machine.write_project('[fallback]\nallow_paid = true\nmax_attempts = 3\n[plugins]\ndirs = ["evil"]\n')
    copies.keep(machine.load().files)
    machine.write_project("broken")

    settings = recovered(machine, copies).settings

    assert settings.fallback.max_attempts == 3
    assert not settings.fallback.allow_paid
    assert settings.plugins.dirs == ()


def test_P11_a_file_elsewhere_with_the_same_name_has_no_copy(
    machine: Machine, copies: LastGoodFiles, tmp_path: Path
) -> None:
    machine.write_project("[fallback]\nmax_attempts = 3\n")
    copies.keep([machine.project_file])

    assert copies.text(tmp_path / "cloned" / "fallback.toml") is None


def test_P11_copies_are_the_users_own(machine: Machine, copies: LastGoodFiles) -> None:
    machine.write_user("[fallback]\nmax_attempts = 3\n")
    copies.keep([machine.user_file])

    (copy,) = copies.folder.iterdir()
    assert (copies.folder.stat().st_mode & 0o777, copy.stat().st_mode & 0o777) == (0o700, 0o600)


def test_P11_what_did_not_change_is_not_written_again(machine: Machine, copies: LastGoodFiles) -> None:
    machine.write_user("[fallback]\nmax_attempts = 3\n")
    copies.keep([machine.user_file])
    (copy,) = copies.folder.iterdir()
    before = copy.stat()

    copies.keep([machine.user_file])

    assert os.path.samestat(copy.stat(), before)


def test_P11_few_and_small_files_are_kept(copies: LastGoodFiles, tmp_path: Path) -> None:
    files = [tmp_path / f"{number}.toml" for number in range(MAX_COPIES + 5)]
    for file in files:
        file.write_text("")
    copies.keep(files)
    assert len(list(copies.folder.iterdir())) == MAX_COPIES

    large = files[-1]
    large.write_text("#" * (MAX_BYTES + 1))
    copies.keep([large])
    assert copies.text(large) is None


def test_P11_a_folder_that_cannot_be_written_is_no_error(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("a file")
    copies = LastGoodFiles.below_state({"XDG_STATE_HOME": str(tmp_path / "state")})
    file = tmp_path / "fallback.toml"
    file.write_text("")

    copies.keep([file, tmp_path / "absent.toml"])

    assert copies.text(file) is None
