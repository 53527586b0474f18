"""Which project a data folder belongs to: recorded in it, so that it is found when the project has moved."""

import json
import re
import secrets
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self

RECORD: Final = "project.json"
_ID_FILE: Final = "fallback-plugin-project"


@dataclass(frozen=True, slots=True)
class ProjectRecord:
    """A project as a data folder knows it.

    Attributes:
        root: its folder: the root of the repository, or the folder itself where there is none.
        name: what stays the same when it is moved: a name kept in the repository's own folder, which a clone
            does not copy, or else the number of the folder on its file system.
    """

    root: Path
    name: str

    @property
    def is_certain(self) -> bool:
        """Whether the name cannot be another project's; a file system gives its numbers out again."""
        return self.name.startswith("id:")

    @property
    def is_gone(self) -> bool:
        """Whether there is nothing at its place any more."""
        return not self.root.exists()

    @classmethod
    def of(cls, directory: Path, *, create: bool = False) -> Self:
        """Return the project of a folder; with ``create`` a repository without a name gets one."""
        root = project_root(directory)
        if (name := _repository_name(root, create=create)) is not None:
            return cls(root, f"id:{name}")
        try:
            found = root.stat()
        except OSError:
            return cls(root, f"path:{root}")
        return cls(root, f"inode:{found.st_dev}:{found.st_ino}")

    @classmethod
    def read(cls, data: Path) -> Self | None:
        """Return what a data folder records, None if it is nothing that can be read."""
        try:
            stored: dict[str, Any] = json.loads((data / RECORD).read_text(encoding="utf-8"))
            return cls(Path(stored["root"]), str(stored["name"]))
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            return None

    def write(self, data: Path) -> None:
        """Record the project in a data folder."""
        text = json.dumps({"root": str(self.root), "name": self.name})
        (data / RECORD).write_text(text, encoding="utf-8", errors="surrogateescape")


def project_root(directory: Path) -> Path:
    """Return the root of the repository a folder is in, the folder itself if it is in none.

    A repository that is the user's whole home, as for configuration files, is no project.
    """
    directory = directory.resolve()
    for folder in (directory, *directory.parents):
        if (folder / ".git").exists() and folder != Path.home():
            return folder
    return directory


def _repository_name(root: Path, *, create: bool) -> str | None:
    folder = _git_folder(root)
    if folder is None:
        return None
    file = folder / _ID_FILE
    with suppress(OSError, ValueError):
        name = file.read_text(encoding="ascii").strip()
        if re.fullmatch("[0-9a-f]{32}", name):
            return name
    if create:
        name = secrets.token_hex(16)
        with suppress(OSError):
            file.write_text(f"{name}\n", encoding="ascii")
            return name
    return None


def _git_folder(root: Path) -> Path | None:
    """Return where git keeps what belongs to this working copy alone: a worktree has a folder of its own."""
    git = root / ".git"
    if git.is_dir():
        return git
    with suppress(OSError, ValueError):
        link = git.read_text(encoding="utf-8").partition("gitdir:")[2].strip()
        if link and (folder := root / link).is_dir():
            return folder
    return None
