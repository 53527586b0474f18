"""Which OpenCode is told from its package, or from what it answers."""

import json
import os
from pathlib import Path

import pytest

from fallback_plugin.opencode.host_version import is_supported, version_on_path


def a_program(folder: Path, answer: str) -> str:
    """Put a program of that name into a folder, and return the folder as a PATH."""
    folder.mkdir(parents=True, exist_ok=True)
    program = folder / "opencode"
    program.write_text(f"#!/bin/sh\n{answer}\n")
    program.chmod(0o755)
    return str(folder)


@pytest.mark.parametrize(
    ("version", "supported"),
    [("1.18.33", True), ("v1.0.0", True), ("2.0.0", False), ("v2.1.0-beta.3", False), ("12.0.0", False)],
)
def test_P20_versions_from_2_on_are_not_supported(version: str, supported: bool) -> None:  # noqa: FBT001
    assert is_supported(version) is supported


@pytest.mark.parametrize("version", ["", "local", "0.1.0", "dev"])
def test_P20_what_does_not_say_that_it_is_newer_may_work(version: str) -> None:
    assert is_supported(version)


@pytest.mark.parametrize(("package", "version"), [("opencode-ai", "1.18.33"), ("@opencode/cli", "2.0.1")])
def test_P20_an_npm_package_names_its_version_without_a_start(
    tmp_path: Path, package: str, version: str
) -> None:
    home = tmp_path / "lib" / "node_modules" / package
    a_program(home / "bin", "exit 1")
    (home / "package.json").write_text(json.dumps({"name": package, "version": version}))
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "opencode").symlink_to(home / "bin" / "opencode")

    assert version_on_path(str(tmp_path / "bin")) == version


@pytest.mark.parametrize("manifest", ['{"name": "somebody-elses", "version": "9.9.9"}', "nonsense", "[]"])
def test_P20_another_package_around_it_says_nothing(tmp_path: Path, manifest: str) -> None:
    (tmp_path / "package.json").write_text(manifest)

    assert version_on_path(a_program(tmp_path / "bin", "echo opencode 2.0.0")) == "2.0.0"


@pytest.mark.parametrize("answer", ["exit 3", "echo hello", "printf '\\377'"])
def test_P20_a_program_that_does_not_tell_has_no_version(tmp_path: Path, answer: str) -> None:
    assert version_on_path(a_program(tmp_path, answer)) is None


def test_P20_without_a_program_there_is_no_version(tmp_path: Path) -> None:
    assert version_on_path(str(tmp_path)) is None


def test_P20_the_real_one_is_told_from_its_package(opencode_binary: Path) -> None:
    version = version_on_path(os.fspath(opencode_binary.parent))

    assert version is not None
    assert version.startswith("1.")
