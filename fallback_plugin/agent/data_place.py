"""Where a project's sessions are kept unless somebody says otherwise."""

import hashlib
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from fallback_plugin.agent.project_record import ProjectRecord
from fallback_plugin.agent.store.folder import DATABASE

_DIGITS: Final = 12


@dataclass(frozen=True, slots=True)
class DataPlace:
    """A data folder, and what its user should know about the choice."""

    folder: Path
    notices: tuple[str, ...] = ()


def default_data_place(directory: Path, environ: Mapping[str, str], *, create: bool = False) -> DataPlace:
    """Find the data folder of the project that a folder is in, wherever in the project and moved or not.

    Args:
        directory: the folder.
        environ: names the user's data folder.
        create: whether a repository without a name gets one, by which it is found when it has moved.
    """
    project = ProjectRecord.of(directory, create=create)
    by_path = default_data_folder(project.root, environ)
    same = [
        (folder, record)
        for folder, record in _recorded(by_path.parent)
        if record.name == project.name and (record.is_gone or record.root == project.root)
    ]
    if same and project.is_certain:
        folder = by_path if by_path in dict(same) else same[0][0]
        return DataPlace(folder, _other_notices(directory, folder, environ))
    offers = tuple(
        f"Is this {record.root}, which is gone, under another name? Then its sessions are served by: "
        f"fallback-plugin serve --data-dir {shlex.quote(str(folder))}"
        for folder, record in same
        if record.is_gone and not _has_sessions(by_path)
    )
    return DataPlace(by_path, (*_other_notices(directory, by_path, environ), *offers))


def default_data_folder(directory: Path, environ: Mapping[str, str]) -> Path:
    """Return the data folder for a path; one host at a time works in it."""
    base = environ.get("XDG_DATA_HOME") or ""
    data = Path(base) if Path(base).is_absolute() else Path.home() / ".local" / "share"
    real = str(directory.resolve())
    digest = hashlib.sha256(real.encode("utf-8", "surrogateescape")).hexdigest()[:_DIGITS]
    return data / "fallback-plugin" / "sessions" / f"{directory.resolve().name or 'root'}-{digest}"


def _other_notices(directory: Path, chosen: Path, environ: Mapping[str, str]) -> tuple[str, ...]:
    """Tell of other sessions of this very path, as earlier releases kept them for a subfolder by itself."""
    own = default_data_folder(directory, environ)
    if own == chosen or not _has_sessions(own):
        return ()
    command = f"fallback-plugin serve --data-dir {shlex.quote(str(own))}"
    return (f"Other sessions of this path are served by: {command}",)


def _recorded(parent: Path) -> Iterator[tuple[Path, ProjectRecord]]:
    if not parent.is_dir():
        return
    for folder in sorted(parent.iterdir()):
        if _has_sessions(folder) and (record := ProjectRecord.read(folder)) is not None:
            yield folder, record


def _has_sessions(folder: Path) -> bool:
    return (folder / DATABASE).is_file()
