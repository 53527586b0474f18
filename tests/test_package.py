"""The wheel: it holds the whole tree and nothing else, and works where it is installed."""

import os
import shutil
import subprocess
import sys
import sysconfig
import venv
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from fallback_plugin import __version__
from fallback_plugin.opencode.install import bridge_text

pytestmark = [pytest.mark.wheel, pytest.mark.timeout(120), pytest.mark.xdist_group("wheel")]

ROOT: Final = Path(__file__).parents[1]
SOURCES: Final = {
    "fallback_plugin": "fallback_plugin",
    "hooks": "fallback_plugin/_hosts",
    "config": "fallback_plugin/_config",
}
"""Folders of the tree, and where each is in the wheel."""

ENVIRONMENT: Final = {"PATH": os.environ["PATH"], "PIP_DISABLE_PIP_VERSION_CHECK": "1"}


def files_below(folder: Path) -> Iterator[Path]:
    return (
        path.relative_to(folder) for path in folder.rglob("*") if path.is_file() and path.suffix != ".pyc"
    )


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build in a copy, since building leaves its traces beside the sources."""
    copy = tmp_path_factory.mktemp("tree")
    for name in SOURCES:
        shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, copy)
    done = subprocess.run(
        [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", copy / "dist", copy],
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    (built,) = (copy / "dist").glob("*.whl")
    return built


@pytest.fixture(scope="module")
def unpacked(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("unpacked")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
    return folder


@pytest.fixture(scope="module")
def environment(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Install the wheel alone; what it depends on is borrowed from the environment of the tests."""
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder, with_pip=False, symlinks=True)
    python = folder / "bin" / "python"
    subprocess.run(
        [
            sys.executable,
            "-m",
            "pip",
            "--python",
            python,
            "install",
            "--no-deps",
            "--no-index",
            "--quiet",
            wheel,
        ],
        env=ENVIRONMENT,
        check=True,
    )
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    borrowed = folder / "lib" / version / "site-packages" / "borrowed.pth"
    borrowed.write_text(sysconfig.get_path("purelib"))
    return folder


def test_the_wheel_holds_every_file_of_the_tree_and_no_other(unpacked: Path) -> None:
    expected = {Path(there) / file for here, there in SOURCES.items() for file in files_below(ROOT / here)}

    packed = {file for file in files_below(unpacked) if not file.parts[0].endswith(".dist-info")}

    assert packed == expected


def test_the_wheel_names_its_licence_and_those_of_the_libraries_in_it(unpacked: Path) -> None:
    vendor = "fallback_plugin/agent/http/web/vendor"
    licences = ["LICENSE", f"{vendor}/dompurify/LICENSE", f"{vendor}/marked/LICENSE"]
    about = unpacked / f"fallback_plugin-{__version__}.dist-info"

    named = [
        line.partition(": ")[2]
        for line in (about / "METADATA").read_text().splitlines()
        if line.startswith("License-File: ")
    ]

    assert sorted(named) == licences
    for licence in licences:
        assert (about / "licenses" / licence).read_bytes() == (ROOT / licence).read_bytes()


def test_the_wheel_has_one_importable_name(unpacked: Path) -> None:
    names = {path.name for path in unpacked.iterdir()}

    assert names == {"fallback_plugin", f"fallback_plugin-{__version__}.dist-info"}


@pytest.mark.parametrize("name", ["hooks", "config", "tests", "bench", "_hosts", "_config"])
def test_nothing_beside_the_package_becomes_importable(name: str, unpacked: Path) -> None:
    program = (
        f"import sys, importlib.util; sys.path.append({str(unpacked)!r});"
        f"print(importlib.util.find_spec({name!r}), importlib.util.find_spec('fallback_plugin') is not None)"
    )

    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", program], capture_output=True, text=True, check=True
    )

    assert done.stdout.split() == ["None", "True"]


def test_the_command_works_where_it_is_installed(environment: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        [environment / "bin" / "fallback-plugin", "--version"],
        env=ENVIRONMENT,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )

    assert done.stdout == f"fallback-plugin, version {__version__}\n"


def test_it_installs_the_bridge_from_its_own_data(environment: Path, tmp_path: Path) -> None:
    subprocess.run(
        [environment / "bin" / "fallback-plugin", "install", "opencode"],
        env={**ENVIRONMENT, "HOME": str(tmp_path)},
        cwd=tmp_path,
        capture_output=True,
        check=True,
    )

    bridge = tmp_path / ".config" / "opencode" / "plugin" / "fallback-plugin.js"
    assert bridge.read_text(encoding="utf-8") == bridge_text(str(environment / "bin" / "python"))


def test_the_interpreter_it_names_runs_the_installed_package(environment: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        [
            environment / "bin" / "python",
            "-P",
            "-c",
            "import fallback_plugin; print(fallback_plugin.__file__)",
        ],
        env=ENVIRONMENT,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )

    assert Path(done.stdout.strip()).is_relative_to(environment)
