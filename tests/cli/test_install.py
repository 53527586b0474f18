"""``install opencode`` and ``uninstall opencode``, as a person sees them."""

import json
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from fallback_plugin.cli.main import command_line
from fallback_plugin.opencode.install import starter_text


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project folder to be in, and an empty home."""
    folder = tmp_path / "project"
    folder.mkdir()
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture
def bridge(project: Path) -> Path:
    return project.parent / "config" / "opencode" / "plugin" / "fallback-plugin.js"


@pytest.fixture
def settings(project: Path) -> Path:
    return project.parent / "config" / "fallback-plugin" / "fallback.toml"


def run(*arguments: str) -> Result:
    return CliRunner().invoke(command_line, arguments)


def files(folder: Path) -> set[Path]:
    return {path.relative_to(folder) for path in folder.rglob("*") if path.is_file()}


def test_by_default_it_installs_for_the_user(bridge: Path, settings: Path, tmp_path: Path) -> None:
    result = run("install", "opencode")

    assert result.exit_code == 0
    assert files(tmp_path) == {bridge.relative_to(tmp_path), settings.relative_to(tmp_path)}
    assert settings.read_text() == starter_text()


def test_the_bridge_starts_the_python_that_installed_it(bridge: Path) -> None:
    run("install", "opencode")

    assert f"\nconst INTERPRETER = {json.dumps(sys.executable)}\n" in bridge.read_text()


def test_each_thing_done_is_said_and_what_to_do_next(bridge: Path, settings: Path) -> None:
    result = run("install", "opencode")

    done, _, then = result.stdout.partition("\nnext:\n")
    assert [line.split()[:2] for line in done.splitlines()] == [
        ["created", str(bridge)],
        ["created", str(settings)],
    ]
    assert [line.strip() for line in then.splitlines()] == [
        f"1. put your models into {settings}",
        "2. fallback-plugin config check",
        "3. restart OpenCode",
    ]


def test_the_settings_it_writes_are_good(settings: Path) -> None:
    run("install", "opencode")

    result = run("config", "check")

    assert result.exit_code == 0
    assert f"read {settings}" in result.stdout


def test_a_second_time_there_is_nothing_to_do(bridge: Path) -> None:
    run("install", "opencode")
    before = bridge.stat()

    result = run("install", "opencode")

    assert result.stdout.endswith("\nalready up to date\n")
    after = bridge.stat()
    assert (after.st_mtime_ns, after.st_ino) == (before.st_mtime_ns, before.st_ino)


def test_a_dry_run_shows_the_same_and_writes_nothing(tmp_path: Path) -> None:
    dry = run("install", "opencode", "--dry-run")
    nothing = files(tmp_path)
    real = run("install", "opencode")

    would = [line.removeprefix("would create").split() for line in dry.stdout.splitlines()[:2]]
    assert nothing == set()
    assert would == [line.removeprefix("created").split() for line in real.stdout.splitlines()[:2]]


def test_a_bridge_of_another_python_is_updated(bridge: Path) -> None:
    run("install", "opencode")
    mine = bridge.read_text()
    bridge.write_text(mine.replace(json.dumps(sys.executable), '"/another/python"'))

    result = run("install", "opencode")

    assert result.stdout.startswith("updated")
    assert bridge.read_text() == mine


def test_settings_of_the_user_are_kept(settings: Path) -> None:
    settings.parent.mkdir(parents=True)
    settings.write_text("# mine\n")

    result = run("install", "opencode")

    assert settings.read_text() == "# mine\n"
    assert "put your models" not in result.stdout


def test_a_foreign_file_is_kept_and_nothing_else_written(bridge: Path, tmp_path: Path) -> None:
    bridge.parent.mkdir(parents=True)
    bridge.write_text("export default () => {}")

    result = run("install", "opencode")

    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.startswith(f"error: {bridge} was not written by fallback-plugin")
    assert files(tmp_path) == {bridge.relative_to(tmp_path)}
    assert bridge.read_text() == "export default () => {}"


@pytest.mark.parametrize("named", [False, True])
def test_a_project_gets_its_own_files(named: bool, project: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: FBT001 -- a parameter of the test
    if named:
        monkeypatch.chdir(project.parent)
    where = ("--directory", str(project)) if named else ()

    result = run("install", "opencode", "--project", *where)

    assert result.exit_code == 0
    assert files(project) == {Path(".opencode/plugin/fallback-plugin.js"), Path(".opencode/fallback.toml")}
    assert "out of version control" in result.stdout


def test_two_copies_are_a_warning(bridge: Path) -> None:
    run("install", "opencode")

    result = run("install", "opencode", "--project")

    assert result.exit_code == 0
    assert result.stderr.startswith("warning: OpenCode will load two copies")
    assert str(bridge) in result.stderr


def test_uninstalling_removes_the_bridge_and_says_that_settings_stay(bridge: Path, settings: Path) -> None:
    run("install", "opencode")

    result = run("uninstall", "opencode")

    assert result.exit_code == 0
    assert not bridge.exists()
    assert settings.exists()
    assert [line.split()[:2] for line in result.stdout.splitlines()] == [
        ["removed", str(bridge)],
        ["kept", str(settings)],
        ["restart", "OpenCode"],
    ]


def test_uninstalling_names_what_else_stays(project: Path, bridge: Path) -> None:
    state = project.parent / ".local" / "state" / "fallback-plugin"
    kept = project.parent / ".local" / "share" / "fallback-plugin" / "sessions"
    (state / "last-good").mkdir(parents=True)
    (state / "decisions.jsonl").touch()
    (kept / "project-0").mkdir(parents=True)
    run("install", "opencode")

    of_project = run("uninstall", "opencode", "--project")
    result = run("uninstall", "opencode")

    assert not bridge.exists()
    assert [line for line in result.stdout.splitlines() if line.startswith("stays: ")] == [
        f"stays: {state}  (decisions.jsonl, last-good; delete it yourself if you wish)",
        f"stays: {kept}  (the sessions of `fallback-plugin serve`; delete it yourself if you wish)",
    ]
    assert "stays: " not in of_project.stdout


def test_a_dry_run_of_uninstalling_removes_nothing(bridge: Path) -> None:
    run("install", "opencode")

    result = run("uninstall", "opencode", "--dry-run")

    assert bridge.exists()
    assert result.stdout.startswith("would remove")


def test_uninstalling_from_a_project_leaves_the_users(project: Path, bridge: Path) -> None:
    run("install", "opencode")
    run("install", "opencode", "--project")

    result = run("uninstall", "opencode", "--project")

    assert bridge.exists()
    assert files(project) == {Path(".opencode/fallback.toml")}
    assert f"still loads another copy: {bridge}" in result.stderr


def test_uninstalling_names_the_chains_that_opencode_would_send(project: Path, bridge: Path) -> None:
    run("install", "opencode")
    users, own = bridge.parents[1] / "opencode.json", project / ".opencode" / "opencode.jsonc"
    agent = project / ".opencode" / "agent" / "plan.md"
    agent.parent.mkdir(parents=True)
    users.write_text('{"agent": {"build": {\n  "fallback_models": ["spare/a"]\n}}}\n')
    own.write_text('{\n// "fallback_models": []\n"agent": {"plan": {"options": {"fallback_models": "a/b"}}}}')
    agent.write_text("---\nmodel: a/b\nfallback_models: [a/c]\n---\nfallback_models: are words here\n")

    result = run("uninstall", "opencode")

    assert result.exit_code == 0
    assert [line.split(": ")[:3] for line in result.stderr.splitlines()] == [
        ["warning", place, "OpenCode sends fallback_models to the provider from now on"]
        for place in (f"{users}:2", f"{own}:3", f"{agent}:3")
    ]


def test_chains_are_in_use_as_long_as_another_copy_is_loaded(project: Path) -> None:
    run("install", "opencode")
    run("install", "opencode", "--project")
    (project / "opencode.json").write_text('{"agent": {"build": {"fallback_models": ["spare/a"]}}}')

    result = run("uninstall", "opencode", "--project")

    assert "fallback_models" not in result.stderr


def test_uninstalling_leaves_a_foreign_file(bridge: Path) -> None:
    bridge.parent.mkdir(parents=True)
    bridge.write_text("export default () => {}")

    result = run("uninstall", "opencode")

    assert result.exit_code == 0
    assert bridge.exists()
    assert f"not installed: {bridge}" in result.stdout


def test_uninstalling_twice_is_no_error() -> None:
    run("install", "opencode")
    run("uninstall", "opencode")

    assert run("uninstall", "opencode").exit_code == 0


@pytest.mark.parametrize(("version", "warned"), [("1.18.33", False), ("2.0.1", True)])
def test_P20_an_opencode_that_does_not_load_the_plugin_is_warned_of(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    version: str,
    warned: bool,  # noqa: FBT001 -- a case of a table
) -> None:
    program = tmp_path / "bin" / "opencode"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\necho {version}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent))

    result = run("install", "opencode")

    assert result.exit_code == 0
    assert (f"is version {version}; this plugin works with OpenCode 1.x" in result.stderr) is warned
