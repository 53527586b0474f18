"""One table of vectors drives the pager in Python and the page's in node: C1-C12, C.4, E20, E21, S16."""

import asyncio
import json
from pathlib import Path
from typing import Any, Final

import pytest

from tests.history.driving import run
from tests.history.javascript import node_test

VECTORS: Final = json.loads(
    (Path(__file__).parents[1] / "vectors" / "history.json").read_text(encoding="utf-8")
)["vectors"]


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector["name"].replace(" ", "-"))
def test_a_vector(vector: dict[str, Any]) -> None:
    asyncio.run(run(vector.get("pager", {}), vector["steps"]))


@pytest.mark.timeout(60)
def test_every_vector_holds_for_the_page() -> None:
    assert node_test("vectors.test.mjs") is None
