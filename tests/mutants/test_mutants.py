"""Each guard is needed: with it taken out, a named test fails.

A mutant is the package copied into a folder of its own with one change made; the test runs there in a
process of its own. All the named tests pass on the copy without a change.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from tests.mutants.dispatch_mutants import DISPATCH_MUTANTS
from tests.mutants.history_mutants import HISTORY_MUTANTS
from tests.mutants.memory_mutants import MEMORY_MUTANTS
from tests.mutants.mutants import MUTANTS, Mutant

pytestmark = pytest.mark.timeout(60)

ALL: Final = (*MUTANTS, *DISPATCH_MUTANTS, *HISTORY_MUTANTS, *MEMORY_MUTANTS)
REPOSITORY: Final = Path(__file__).parents[2]
PACKAGE: Final = "fallback_plugin"
TESTS_FAILED: Final = int(pytest.ExitCode.TESTS_FAILED)
LEAN: Final = ("-q", "-x", "--noconftest", "-o", "addopts=--import-mode=importlib", "-p", "no:cacheprovider")
LEAN_ENVIRONMENT: Final = {
    "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
    "PYTEST_ADDOPTS": "",
    "PYTEST_PLUGINS": "anyio.pytest_plugin,pytest_timeout",
}


# The copy holds compiled modules; without them a run takes three times as long.
COMPILING: Final = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    shutil.copytree(REPOSITORY / PACKAGE, tmp_path / PACKAGE)
    for shared in ("tests", "pyproject.toml"):
        (tmp_path / shared).symlink_to(REPOSITORY / shared)
    return tmp_path


def run(folder: Path, *tests: str) -> subprocess.CompletedProcess[str]:
    """Run tests against the package in ``folder``."""
    return subprocess.run(
        [sys.executable, "-m", "pytest", *LEAN, *(f"tests/{test}" for test in tests)],
        cwd=folder,
        env={**COMPILING, **LEAN_ENVIRONMENT, "PYTHONPATH": str(folder)},
        capture_output=True,
        text=True,
        check=False,
        timeout=50,
    )


def mutate(folder: Path, mutant: Mutant) -> None:
    file = folder / PACKAGE / mutant.file
    text = file.read_text()
    assert text.count(mutant.find) == 1, (
        f"{mutant.file} holds {mutant.find!r} {text.count(mutant.find)} times"
    )
    file.write_text(text.replace(mutant.find, mutant.replace))


def test_without_a_change_every_named_test_passes(copy: Path) -> None:
    done = run(copy, *sorted({mutant.killed_by for mutant in ALL}))
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    "mutant",
    [pytest.param(mutant, marks=[] if mutant in MUTANTS else [pytest.mark.thorough]) for mutant in ALL],
    ids=[mutant.wrong.replace(" ", "-") for mutant in ALL],
)
def test_a_mutant_is_noticed(copy: Path, mutant: Mutant) -> None:
    mutate(copy, mutant)
    done = run(copy, mutant.killed_by)
    assert done.returncode == TESTS_FAILED, done.stdout + done.stderr
