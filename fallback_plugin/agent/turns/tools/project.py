"""Files of the project and no others: a path is resolved, checked, and then opened without following links.

Between the check and the opening somebody may put a link in the way. Each folder on the way is therefore
opened by itself, below the one before, and refused if it is a link.
"""

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from fallback_plugin.agent.turns.tools.tool import ToolRefusedError

_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK


def place_in(project: Path, path: str) -> Path:
    """Return where a path leads, relative to the project folder.

    Raises:
        ToolRefusedError: if it leads out of the project, by ``..``, by its beginning, or by a link.
    """
    if "\0" in path:
        raise ToolRefusedError("a path holds no zero byte")
    root = project.resolve()
    try:
        resolved = (root / path).resolve()
    except (OSError, RuntimeError) as error:
        raise ToolRefusedError(f"{path}: {error}") from error
    if not resolved.is_relative_to(root):
        raise ToolRefusedError(
            f"{path} is outside of the project folder {root}: only files in it can be used"
        )
    return resolved.relative_to(root)


@contextmanager
def folder_of(project: Path, place: Path, *, create: bool = False) -> Iterator[int]:
    """Open the folder that holds a place; the descriptor is closed at the end."""
    current = os.open(project.resolve(), _FOLDER)
    try:
        for name in place.parent.parts:
            if create:
                with suppress(FileExistsError):
                    os.mkdir(name, dir_fd=current)
            below = os.open(name, _FOLDER, dir_fd=current)
            os.close(current)
            current = below
        yield current
    finally:
        os.close(current)


def read_bytes(project: Path, place: Path, limit: int) -> bytes:
    """Return the content of a plain file.

    Raises:
        ToolRefusedError: if it is none, or longer than ``limit`` bytes.
    """
    with folder_of(project, place) as folder, open(os.open(place.name, _FILE, dir_fd=folder), "rb") as file:  # noqa: PTH123 -- by descriptor
        found = os.fstat(file.fileno())
        if not stat.S_ISREG(found.st_mode):
            raise ToolRefusedError(f"{place} is not a plain file")
        if found.st_size > limit:
            raise ToolRefusedError(f"{place} has {found.st_size} bytes, and {limit} can be read at most")
        return file.read(limit)


def write_bytes(project: Path, place: Path, content: bytes) -> None:
    """Put a file in its place, all at once; an older one keeps its mode. Folders on the way are made."""
    if not place.name:
        raise ToolRefusedError("this is the project folder itself, not a file")
    with folder_of(project, place, create=True) as folder:
        mode = _mode_of(folder, place)
        temporary = f".{place.name[:100]}.{os.urandom(6).hex()}"
        descriptor = os.open(
            temporary,
            os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC,
            0o666,
            dir_fd=folder,
        )
        try:
            with open(descriptor, "wb") as file:  # noqa: PTH123 -- by descriptor
                if mode is not None:
                    os.fchmod(file.fileno(), mode)
                file.write(content)
            os.replace(temporary, place.name, src_dir_fd=folder, dst_dir_fd=folder)
        except BaseException:
            with suppress(OSError):
                os.unlink(temporary, dir_fd=folder)
            raise


def _mode_of(folder: int, place: Path) -> int | None:
    """Return the mode of the file that is there, None if none is."""
    try:
        found = os.stat(place.name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None
    if not stat.S_ISREG(found.st_mode):
        raise ToolRefusedError(f"{place} is not a plain file")
    return stat.S_IMODE(found.st_mode)
