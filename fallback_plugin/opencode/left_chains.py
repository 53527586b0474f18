"""Chains that stand in OpenCode's own files, which it sends to providers once nothing takes them out.

Searched line by line: `opencode.jsonc` may hold comments, and only the place is wanted.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

_IN_JSON: Final = re.compile(r'^(?!\s*//).*"fallback_models"\s*:')
_IN_FRONT_MATTER: Final = re.compile(r"^\s*fallback_models\s*:")


def host_files(user_folder: Path, project_folders: Iterable[Path]) -> Iterator[Path]:
    """Yield the files of OpenCode that may name a chain: its config, and agents in Markdown.

    ``project_folders`` are a project's own folder, those above it, and the ``.opencode`` in each.
    """
    yield user_folder / "config.json"
    for folder in (user_folder, *project_folders):
        yield from (folder / "opencode.json", folder / "opencode.jsonc")
        if folder is user_folder or folder.name == ".opencode":
            for kind in ("agent", "agents", "mode", "modes"):
                yield from sorted((folder / kind).rglob("*.md"))


def left_chains(view: Mapping[Path, str | None], files: Iterable[Path]) -> Iterator[str]:
    """Yield ``file:line`` of each chain in files whose text is in a view."""
    for file in files:
        text = view[file] or ""
        lines, pattern = text.splitlines(), _IN_JSON
        if file.suffix == ".md":
            lines, pattern = _front_matter(lines), _IN_FRONT_MATTER
        for number, line in enumerate(lines, 1):
            if pattern.match(line):
                yield f"{file}:{number}"


def _front_matter(lines: list[str]) -> list[str]:
    if not lines or lines[0].rstrip() != "---":
        return []
    end = next((number for number, line in enumerate(lines[1:], 1) if line.rstrip() == "---"), 0)
    return lines[:end]
