"""Imports point down: each module uses only the floors below its own, and no two modules use each other."""

import ast
from collections.abc import Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import Final

import pytest

PACKAGE: Final = Path(__file__).parents[1] / "fallback_plugin"

FLOORS: Final = (
    ("errors", "extras", "model_ref", "events", "network", "service_log", "sqlite_file"),
    ("wire",),
    ("settings", "history"),
    ("host_client",),
    ("hookspecs",),
    ("plugins",),
    ("health",),
    ("fallback",),
    ("opencode", "agent"),
    ("attach",),
    ("cli",),
    ("__main__",),
)
"""The map of the house, lowest floor first; a floor's rooms may use each other, but never in a circle."""

FACADE: Final = "fallback_plugin"
LEVEL: Final = {room: level for level, rooms in enumerate(FLOORS) for room in rooms}


def module_name(file: Path) -> str:
    parts = file.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def modules() -> dict[str, Path]:
    return {module_name(file): file for file in sorted(PACKAGE.rglob("*.py"))}


MODULES: Final = modules()


def room(module: str) -> str:
    return module.split(".")[1] if "." in module else FACADE


def imported(file: Path) -> Iterator[str]:
    """Return the modules of this package that a file imports, wherever in it the import stands."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        match node:
            case ast.Import(names=names):
                yield from (name.name for name in names if name.name.partition(".")[0] == FACADE)
            case ast.ImportFrom(module=str(source), names=names) if source.partition(".")[0] == FACADE:
                for name in names:
                    full = f"{source}.{name.name}"
                    yield full if full in MODULES else source
            case _:
                pass


@cache
def graph() -> dict[str, tuple[str, ...]]:
    return {name: tuple(imported(file)) for name, file in MODULES.items()}


@pytest.mark.parametrize("module", MODULES)
def test_a_module_stands_on_a_floor_of_the_map(module: str) -> None:
    assert room(module) in {FACADE, *LEVEL}


@pytest.mark.parametrize("module", [name for name in MODULES if name != FACADE])
def test_a_module_imports_only_from_floors_below(module: str) -> None:
    mine = LEVEL[room(module)]

    above = [name for name in graph()[module] if name != FACADE and LEVEL[room(name)] > mine]

    assert above == []


@pytest.mark.parametrize("module", [name for name in MODULES if name != FACADE])
def test_nothing_inside_uses_the_facade_but_for_the_version(module: str) -> None:
    tree = ast.parse(MODULES[module].read_text(encoding="utf-8"))

    names = [
        name.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module == FACADE
        for name in node.names
        if f"{FACADE}.{name.name}" not in MODULES
    ]

    assert set(names) <= {"__version__"}


def test_no_two_modules_import_each_other() -> None:
    """Also not by way of others, for type checkers alone, or inside a function."""
    sorter = TopologicalSorter(
        {name: {other for other in others if other not in (name, FACADE)} for name, others in graph().items()}
    )

    try:
        sorter.prepare()
    except CycleError as error:
        pytest.fail(" → ".join(error.args[1]))


def test_only_the_command_line_prints() -> None:
    printing = {
        name
        for name, file in MODULES.items()
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call)
        and ast.unparse(node.func) in {"print", "click.echo", "click.secho", "sys.stdout.write"}
    }

    assert {room(name) for name in printing} <= {"cli"}


def test_nothing_is_imported_by_a_relative_path() -> None:
    relative = {
        name
        for name, file in MODULES.items()
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.ImportFrom) and node.level
    }

    assert relative == set()
