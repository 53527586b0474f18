"""Where settings files may stand, and which of them counts."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

FILE_NAME: Final = "fallback.toml"


def home(environ: Mapping[str, str]) -> Path:
    """Return the user's home folder."""
    return Path(environ["HOME"]) if environ.get("HOME") else Path.home()


def user_file(environ: Mapping[str, str]) -> Path:
    """Return the place of the user's file.

    A relative ``XDG_CONFIG_HOME`` is ignored, as the XDG base directory specification asks.
    """
    base = Path(environ.get("XDG_CONFIG_HOME", ""))
    return (base if base.is_absolute() else home(environ) / ".config") / "fallback-plugin" / FILE_NAME


def project_files(directory: Path, worktree: Path | None = None) -> tuple[Path, ...]:
    """Return the places of a project's file, the one that counts most first: nearest to ``directory``.

    The search ends at the worktree's root. Where there is none (OpenCode says ``/`` outside of a
    repository), only ``directory`` itself is looked at: folders above may belong to someone else.
    """
    directory = directory.absolute()
    root = _root(directory, worktree)
    return tuple(
        place
        for folder in _upwards(directory, root)
        for place in (folder / FILE_NAME, folder / ".opencode" / FILE_NAME)
    )


def candidate_files(
    *, directory: Path, worktree: Path | None, environ: Mapping[str, str]
) -> tuple[Path, ...]:
    """Return every file whose appearance, change or loss may change the settings."""
    return tuple(dict.fromkeys((user_file(environ), *project_files(directory, worktree))))


def present(file: Path) -> bool:
    """Tell whether something can be found at a place; a folder that may not be entered holds nothing."""
    try:
        return file.exists()
    except OSError:
        return False


def _root(directory: Path, worktree: Path | None) -> Path:
    if worktree is None:
        repository = next(
            (folder for folder in (directory, *directory.parents) if present(folder / ".git")), None
        )
        return repository or directory
    worktree = worktree.absolute()
    inside = worktree in (directory, *directory.parents) and worktree != Path(worktree.anchor)
    return worktree if inside else directory


def _upwards(directory: Path, root: Path) -> Iterator[Path]:
    for folder in (directory, *directory.parents):
        yield folder
        if folder == root:
            return
