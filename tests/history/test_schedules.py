"""Any schedule of calls, events and answers; under node it shows the same after each step."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.history.javascript import node_test
from tests.history.world import World

pytestmark = pytest.mark.timeout(600)


def test_any_schedule_ends_with_a_contiguous_slice_and_in_node_with_the_same(tmp_path: Path) -> None:
    schedules: list[dict[str, Any]] = []

    @given(st.data())
    def make(data: st.DataObject) -> None:
        world = World(data)
        asyncio.run(world.run())
        schedules.append({"options": world.options, "steps": world.record})

    make()
    file = tmp_path / "schedules.json"
    file.write_text(json.dumps(schedules), encoding="utf-8")

    assert node_test("schedules.test.mjs", SCHEDULES=str(file)) is None
