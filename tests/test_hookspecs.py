"""Guards: no hook without a test, a docstring that says since when, and a place in the documentation."""

import ast
import re
from collections.abc import Iterator
from inspect import getdoc, signature
from pathlib import Path
from typing import Final

import pytest

from fallback_plugin import hookspecs
from fallback_plugin.plugins.registry import Registry

ROOT: Final = Path(__file__).parents[1]
HOOKS: Final = sorted(Registry().hooks)


def names_of_tests(folder: Path) -> Iterator[str]:
    for file in folder.rglob("test_*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                yield node.name


@pytest.fixture(scope="module")
def all_tests() -> frozenset[str]:
    return frozenset(names_of_tests(ROOT / "tests"))


@pytest.fixture(scope="module")
def reference() -> str:
    return (ROOT / "docs" / "plugins.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("hook", HOOKS)
def test_each_hook_has_a_test_named_after_it(hook: str, all_tests: frozenset[str]) -> None:
    assert any(name.startswith(f"test_{hook}_") for name in all_tests)


@pytest.mark.parametrize("hook", HOOKS)
def test_each_hook_says_since_when_it_exists(hook: str) -> None:
    assert re.search(r"Since \d+\.\d+\.", getdoc(getattr(hookspecs, hook)) or "")


@pytest.mark.parametrize("hook", HOOKS)
def test_each_hook_is_documented_with_its_signature(hook: str, reference: str) -> None:
    arguments = ", ".join(signature(getattr(hookspecs, hook)).parameters)

    assert f"### `{hook}({arguments})`" in reference


def test_the_documentation_names_no_hook_that_does_not_exist(reference: str) -> None:
    documented = re.findall(r"^### `(\w+)\(", reference, flags=re.MULTILINE)

    assert sorted(documented) == HOOKS
