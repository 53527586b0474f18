"""Put the bridge where OpenCode loads it, and take it away again: plan first, then carry out.

A plan is made from a view of the files that matter and touches nothing, so that a dry run shows exactly what
a real run does.
"""

import json
import os
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Final, Literal, TypeAlias

from fallback_plugin.errors import InstallError
from fallback_plugin.opencode.bridge_file import joined
from fallback_plugin.opencode.left_chains import host_files, left_chains
from fallback_plugin.settings.discovery import FILE_NAME, project_files, user_file

Scope: TypeAlias = Literal["user", "project"]
View: TypeAlias = Mapping[Path, str | None]
"""The text at each place, None where there is nothing; a file that is not text counts as an empty one."""

BRIDGE_NAME: Final = "fallback-plugin.js"
MARKER: Final = "// Installed by `fallback-plugin install opencode`"
"""Only a file that carries this line is ours to change or remove."""

_INTERPRETER_LINE: Final = "const INTERPRETER = null"
_PLUGIN_FOLDERS: Final = ("plugin", "plugins")


@dataclass(frozen=True, slots=True)
class Places:
    """Where things go for one scope, and where else OpenCode would find a bridge or a chain."""

    bridge: Path
    settings: Path
    elsewhere: tuple[Path, ...]
    host_files: tuple[Path, ...] = ()

    def all(self) -> tuple[Path, ...]:
        """Return every place a plan has to look at."""
        return (self.bridge, self.settings, *self.elsewhere, *self.host_files)


@dataclass(frozen=True, slots=True)
class Action:
    """One thing to do to a file, or to leave as it is; ``reason`` says why in a few words."""

    kind: Literal["create", "update", "remove", "keep"]
    path: Path
    reason: str
    text: str = ""


@dataclass(frozen=True, slots=True)
class Plan:
    """What to do, in order, and what the person should know about it."""

    actions: tuple[Action, ...]
    warnings: tuple[str, ...] = ()

    @property
    def changes(self) -> bool:
        """Whether carrying it out would change anything."""
        return any(action.kind != "keep" for action in self.actions)


def places(scope: Scope, *, directory: Path, environ: Mapping[str, str]) -> Places:
    """Return the places for a scope; ``directory`` is the project folder OpenCode is used in."""
    directory = directory.absolute()
    user_settings = user_file(environ)
    user_folder = user_settings.parents[1] / "opencode"
    own_folder = directory / ".opencode"
    project_folders = [file.parent for file in project_files(directory)]
    above = (folder for folder in project_folders if folder.name == own_folder.name)
    target = user_folder if scope == "user" else own_folder
    bridge = target / "plugin" / BRIDGE_NAME
    copies = [
        folder / plugins / BRIDGE_NAME
        for folder in dict.fromkeys((user_folder, own_folder, *above))
        for plugins in _PLUGIN_FOLDERS
    ]
    return Places(
        bridge=bridge,
        settings=user_settings if scope == "user" else own_folder / FILE_NAME,
        elsewhere=tuple(copy for copy in copies if copy != bridge),
        host_files=tuple(host_files(user_folder, dict.fromkeys(project_folders))),
    )


def look(where: Places) -> View:
    """Read the files a plan depends on.

    Raises:
        InstallError: if one of them is there but cannot be read.
    """
    return {path: _text_at(path) for path in where.all()}


def plan_install(where: Places, view: View, *, bridge: str, starter: str) -> Plan:
    """Plan to write the bridge, and a starting settings file if there is none.

    Raises:
        InstallError: if somebody else's file is in the bridge's place.
    """
    there = view[where.bridge]
    if there is None:
        bridge_action = Action("create", where.bridge, "the bridge", bridge)
    elif there == bridge:
        bridge_action = Action("keep", where.bridge, "the bridge, already up to date")
    elif _is_ours(there):
        bridge_action = Action("update", where.bridge, "the bridge", bridge)
    else:
        raise InstallError(
            f"{where.bridge} was not written by fallback-plugin and is left as it is; "
            "rename or move that file, then install again"
        )
    if view[where.settings] is None:
        settings_action = Action("create", where.settings, "settings to start with", starter)
    else:
        settings_action = Action("keep", where.settings, "your settings, never overwritten")
    return Plan((bridge_action, settings_action), tuple(_copies(where, view)))


def plan_uninstall(where: Places, view: View) -> Plan:
    """Plan to remove the bridge if it is ours. Settings stay."""
    there = view[where.bridge]
    actions = []
    if there is not None and _is_ours(there):
        actions.append(Action("remove", where.bridge, "the bridge"))
    elif there is not None:
        actions.append(Action("keep", where.bridge, "not written by fallback-plugin"))
    if view[where.settings] is not None:
        actions.append(Action("keep", where.settings, "your settings; delete them yourself if you wish"))
    still_loaded = tuple(_still_loaded(where, view))
    return Plan(tuple(actions), still_loaded or tuple(_chains_left(where, view)))


def carry_out(plan: Plan) -> None:
    """Do what a plan says. Files are replaced as a whole, so that OpenCode never reads half of one.

    Raises:
        InstallError: if the file system refuses, or a file appeared since the plan was made.
    """
    for action in plan.actions:
        try:
            match action.kind:
                case "create":
                    if os.path.lexists(action.path):
                        raise InstallError(f"{action.path} has just appeared; look at it and install again")
                    _write(action.path, action.text)
                case "update":
                    _write(action.path, action.text)
                case "remove":
                    action.path.unlink(missing_ok=True)
                case "keep":
                    pass
        except OSError as error:
            raise InstallError(f"cannot {action.kind} {action.path}: {error.strerror or error}") from error


def bridge_text(interpreter: str) -> str:
    """Return the bridge with the Python it shall start written in.

    ``interpreter`` is an absolute path, not resolved: a virtual environment is known by its link.

    Raises:
        InstallError: if the interpreter is not given by an absolute path.
    """
    if not Path(interpreter).is_absolute():
        raise InstallError(
            f"this Python does not know its own path ({interpreter!r}); "
            "run fallback-plugin from the environment it is installed in"
        )
    template = joined(BRIDGE_NAME, bridge_module)
    lines = template.splitlines(keepends=True)
    marked = [
        line.replace(_INTERPRETER_LINE, f"const INTERPRETER = {json.dumps(interpreter)}")
        if line.startswith(_INTERPRETER_LINE)
        else line
        for line in lines
    ]
    if marked == lines or not _is_ours(template):
        raise InstallError("the bridge in this package is damaged; install fallback-plugin again")
    return "".join(marked)


def bridge_module(name: str) -> str:
    """Return the source of a module of the bridge.

    Raises:
        InstallError: if there is none of this name.
    """
    return _bundled("_hosts", "hooks", f"opencode/{name}")


def starter_text() -> str:
    """Return settings to start with: every line that chooses a model is commented out."""
    return _bundled("_config", "config", "starter.toml")


def _bundled(package_folder: str, checkout_folder: str, name: str) -> str:
    """Read package data; a source checkout keeps it beside the package."""
    package = files("fallback_plugin")
    packed = package / package_folder / name
    if packed.is_file():
        return packed.read_text(encoding="utf-8")
    checkout = Path(str(package)).parent / checkout_folder / name
    try:
        return checkout.read_text(encoding="utf-8")
    except OSError as error:
        raise InstallError(f"{name} is missing from this package; install fallback-plugin again") from error


def _text_at(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8")
    except (FileNotFoundError, NotADirectoryError):
        # A link that leads nowhere is still somebody's file.
        return "" if path.is_symlink() else None
    except UnicodeDecodeError:
        return ""
    except OSError as error:
        raise InstallError(f"cannot read {path}: {error.strerror or error}") from error


def _is_ours(text: str) -> bool:
    return any(line.startswith(MARKER) for line in text.splitlines())


def _copies(where: Places, view: View) -> Iterator[str]:
    for copy in where.elsewhere:
        if _is_ours(view[copy] or ""):
            yield (
                f"OpenCode will load two copies, this one and {copy}; they agree on who acts, "
                "but one is enough: delete the other"
            )


def _still_loaded(where: Places, view: View) -> Iterator[str]:
    for copy in where.elsewhere:
        if _is_ours(view[copy] or ""):
            yield f"OpenCode still loads another copy: {copy}"


def _chains_left(where: Places, view: View) -> Iterator[str]:
    for place in left_chains(view, where.host_files):
        yield f"{place}: OpenCode sends fallback_models to the provider from now on: remove it"


def _write(path: Path, text: str) -> None:
    """Write a file beside its place, then move it there."""
    path.parent.mkdir(parents=True, exist_ok=True)
    # OpenCode loads *.js and *.ts of this folder: the draft is neither.
    descriptor, draft = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-", suffix=".draft")
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
        Path(draft).chmod(0o644)
        Path(draft).replace(path)
    except BaseException:
        Path(draft).unlink(missing_ok=True)
        raise
