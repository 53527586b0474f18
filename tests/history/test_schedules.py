"""Any schedule of calls, events and answers; under node it shows the same after each step."""

import json
from pathlib import Path

import pytest

from tests.history.javascript import node_test
from tests.history.schedules import schedules

pytestmark = pytest.mark.timeout(600)


def test_any_schedule_ends_with_a_contiguous_slice_and_in_node_with_the_same(tmp_path: Path) -> None:
    file = tmp_path / "schedules.json"
    file.write_text(json.dumps(schedules()), encoding="utf-8")

    assert node_test("schedules.test.mjs", SCHEDULES=str(file)) is None
