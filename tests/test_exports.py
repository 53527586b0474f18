"""The façade: what it exports exists, is documented, and costs nothing until it is used."""

import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Final

import pytest

import fallback_plugin

ROOT: Final = Path(__file__).parents[1]
PAGES: Final = (ROOT / "README.md", *sorted((ROOT / "docs").glob("**/*.md")))

_IMPORT: Final = re.compile(r"^\s*from fallback_plugin import (.+)$", re.MULTILINE)
_MENTION: Final = re.compile(r"\bfallback_plugin\.([A-Z_]\w*|hookimpl\b)")


def documented() -> set[str]:
    """Return the names that README and docs import from the package, or mention as its own."""
    found: set[str] = set()
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        found |= {name.strip() for names in _IMPORT.findall(text) for name in names.split(",")}
        found |= set(_MENTION.findall(text))
    return found


@pytest.mark.parametrize("name", fallback_plugin.__all__)
def test_every_exported_name_can_be_imported(name: str) -> None:
    assert getattr(fallback_plugin, name) is not None


def test_every_exported_name_is_documented() -> None:
    assert set(fallback_plugin.__all__) - documented() == set()


def test_every_documented_name_is_exported() -> None:
    assert documented() - set(fallback_plugin.__all__) == set()


def test_another_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        getattr(import_module("fallback_plugin"), "nonsense")  # noqa: B009 -- mypy knows it is not there


def test_importing_the_package_imports_nothing_else() -> None:
    program = (
        "import sys; before = set(sys.modules); import fallback_plugin; print(*set(sys.modules) - before)"
    )

    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=ROOT
    )

    foreign = {name for name in done.stdout.split() if name.partition(".")[0] not in sys.stdlib_module_names}
    assert foreign == {"fallback_plugin"}
