"""Join the modules of the bridge into one file: OpenCode takes every file that it finds for a plugin.

A module follows a strict convention, so that joining is cutting lines and needs no parser of JavaScript.
At the beginning of a line there may stand

- ``import { a, b } from "./module.js"`` or ``from "node:module"``, on one line and without ``as``;
- ``const``, ``let``, ``function``, ``async function`` or ``class`` with one name, and ``export`` before it;
- ``export default``, in the entry alone;
- a comment of ``//``, or what closes a bracket.

Nothing is imported or exported elsewhere, ``import()`` included. All modules end in one scope, so a name at
the top of one is at the top of none other, and none is that of a global which another one uses.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

from fallback_plugin.errors import InstallError

_IMPORT: Final = re.compile(
    r'import \{ (?P<names>[\w$]+(?:, [\w$]+)*) \} from "(?:\./(?P<module>[\w-]+\.js)|(?P<host>node:[\w/]+))"'
)
_DECLARATION: Final = re.compile(
    r"(?P<export>export )?(?:const|let|(?:async )?function|class) (?P<name>[\w$]+)(?=[ (]|$)"
)
_DEFAULT: Final = re.compile(r"export default ")
_ELSEWHERE: Final = re.compile(r"""^\s+import\b|\bimport\s*[({.*"']|\bexport\b""")
_HARMLESS: Final = ("//", "}", "]", ")")


@dataclass(slots=True)
class _Module:
    """One module, taken apart."""

    name: str
    opening: list[str] = field(default_factory=list)
    """The comment it begins with."""
    body: list[str] = field(default_factory=list)
    """What is left of the rest without imports and ``export``."""
    declared: dict[str, str] = field(default_factory=dict)
    """The names at its top, and where each stands."""
    exported: set[str] = field(default_factory=set)
    imported: list[tuple[str, str, str]] = field(default_factory=list)
    """Name, module and place of each import from another module."""
    from_host: list[tuple[str, str, str]] = field(default_factory=list)
    """The same of imports from what the runtime brings along."""

    def text(self, *, with_opening: bool = True) -> str:
        """Return it as a piece of the joined file."""
        return "\n".join([*(self.opening if with_opening else ()), *self.body]).strip("\n")


def joined(entry: str, read: Callable[[str], str]) -> str:
    """Return ``entry`` and all it imports as one module; each stands after those it imports.

    The comment that ``entry`` begins with is the beginning of the whole. ``read`` returns the text of a
    module by its name, and what it raises is passed on.

    Raises:
        InstallError: if a module does not follow the convention, if two have a name in common, if one imports
            what another does not export, or if they import each other in a circle.
    """
    modules = _in_order(entry, read)
    imports = _host_imports(modules.values())
    _check_names(modules)
    *others, main = modules.values()
    pieces = ["\n".join(main.opening), imports, *(module.text() for module in others)]
    return "\n\n".join(filter(None, [*pieces, main.text(with_opening=False)])) + "\n"


def _in_order(entry: str, read: Callable[[str], str]) -> dict[str, _Module]:
    ordered: dict[str, _Module] = {}

    def visit(name: str, path: tuple[str, ...]) -> None:
        if name in path:
            raise InstallError(f"modules import each other: {' -> '.join((*path, name))}")
        if name in ordered:
            return
        module = _taken_apart(name, read(name), is_entry=not path)
        for _, source, _ in module.imported:
            visit(source, (*path, name))
        ordered[name] = module

    visit(entry, ())
    return ordered


def _taken_apart(name: str, text: str, *, is_entry: bool) -> _Module:
    module = _Module(name)
    opens = True
    for number, line in enumerate(text.splitlines(), 1):
        opens = opens and line.startswith("//")
        if opens:
            module.opening.append(line)
        else:
            module.body.extend(_kept(module, line, place=f"{name}:{number}", is_entry=is_entry))
    return module


def _kept(module: _Module, line: str, *, place: str, is_entry: bool) -> Iterator[str]:
    """Take in what a line says of names; yield what of it goes into the joined file."""
    rest = line
    if match := _IMPORT.fullmatch(line):
        found = module.imported if match["module"] else module.from_host
        found.extend((name, match["module"] or match["host"], place) for name in match["names"].split(", "))
        return
    if match := _DECLARATION.match(line):
        name = match["name"]
        if name in module.declared:
            raise InstallError(f"{place}: {name} is declared in {module.declared[name]} already")
        module.declared[name] = place
        if match["export"]:
            module.exported.add(name)
            line = rest = line.removeprefix(match["export"])
    elif is_entry and (match := _DEFAULT.match(line)):
        rest = line[match.end() :]
    elif line and not line[0].isspace() and not line.startswith(_HARMLESS):
        raise InstallError(f"{place}: cannot be joined, see bridge_file.py for what may stand here: {line}")
    if _ELSEWHERE.search(rest) and not line.lstrip().startswith("//"):
        raise InstallError(
            f"{place}: import and export stand at the beginning of a line only: {line.strip()}"
        )
    yield line


def _host_imports(modules: Iterable[_Module]) -> str:
    names: dict[str, set[str]] = {}
    for module in modules:
        for name, source, _ in module.from_host:
            names.setdefault(source, set()).add(name)
    return "\n".join(
        f'import {{ {", ".join(sorted(names[source]))} }} from "{source}"' for source in sorted(names)
    )


def _check_names(modules: dict[str, _Module]) -> None:
    owners: dict[str, tuple[str, str]] = {}
    for module in modules.values():
        taken = [(name, source, place) for name, source, place in module.from_host]
        taken += [(name, module.name, place) for name, place in module.declared.items()]
        for name, source, place in taken:
            owner, first = owners.setdefault(name, (source, place))
            if owner != source:
                raise InstallError(f"{place}: {name} means something else in {first}; give one another name")
        for name, source, place in module.imported:
            if name not in modules[source].exported:
                raise InstallError(f"{place}: {source} exports no {name}")
