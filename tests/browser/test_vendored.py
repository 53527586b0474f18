"""The libraries of the page are those that package.json names, byte for byte, with their licences."""

import json
from pathlib import Path
from typing import Final

import pytest

from fallback_plugin.agent.http.page import FOLDER
from tests.conftest import missing

ROOT: Final = Path(__file__).parents[2]
PINNED: Final = json.loads((ROOT / "package.json").read_text())["devDependencies"]

COPIES: Final = {
    "marked/marked.esm.js": "marked/lib/marked.esm.js",
    "marked/LICENSE": "marked/LICENSE",
    "dompurify/purify.es.mjs": "dompurify/dist/purify.es.mjs",
    "dompurify/LICENSE": "dompurify/LICENSE",
}


@pytest.mark.parametrize("copy", COPIES)
def test_a_copy_is_the_pinned_packages_own_file(copy: str) -> None:
    package = ROOT / "node_modules" / copy.partition("/")[0]
    if not package.is_dir():
        missing(f"{package.name} is not installed: scripts/test installs it with npm")

    assert json.loads((package / "package.json").read_text())["version"] == PINNED[package.name]
    assert (FOLDER / "vendor" / copy).read_bytes() == (ROOT / "node_modules" / COPIES[copy]).read_bytes()


def test_there_are_no_others() -> None:
    vendored = FOLDER / "vendor"

    assert {file.relative_to(vendored).as_posix() for file in vendored.rglob("*") if file.is_file()} == set(
        COPIES
    )
