"""Each report on similar hosts that ours was designed against has a row; the tests it names are there."""

import re
from pathlib import Path
from typing import Final

import pytest

TESTS: Final = Path(__file__).parent
PAGE: Final = (TESTS.parent / "docs" / "reports.md").read_text(encoding="utf-8")
ROWS: Final = dict(re.findall(r"^\| ([BES]\d+) \|.*\| (.*) \|$", PAGE, re.MULTILINE))
NAMES: Final = {
    name
    for file in TESTS.rglob("test_*.py")
    for name in re.findall(r"def (test_\w+)", file.read_text("utf-8"))
}


def test_no_report_is_left_out() -> None:
    last = {"B": 29, "E": 24, "S": 28}
    assert set(ROWS) == {f"{kind}{number}" for kind in last for number in range(1, last[kind] + 1)}


@pytest.mark.parametrize("row", ROWS)
def test_what_a_row_names_is_there(row: str) -> None:
    named = re.findall(r"`([^`]+)`", ROWS[row])

    assert named
    for name in named:
        prefix = name.removesuffix("…")
        is_test = any(each == prefix or each.startswith(f"{prefix.rstrip('_')}_") for each in NAMES)
        assert is_test or (TESTS.parent / name).exists(), name
