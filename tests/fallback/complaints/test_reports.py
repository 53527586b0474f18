"""Every complaint that has a test is in docs/reports.md, and every test named there exists."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

TESTS: Final = Path(__file__).parents[2]
REPORTS: Final = (TESTS.parent / "docs" / "reports.md").read_text()
ROWS: Final = {
    int(number): row for row in REPORTS.splitlines() for number in re.findall(r"^\| (\d+) \|", row)
}


def defined() -> Iterator[str]:
    for file in TESTS.rglob("test_*.py"):
        yield from re.findall(r"def (test_\w+)", file.read_text())


def complaint_of(test: str) -> int | None:
    found = re.match(r"test_complaint_(\d+)", test)
    return int(found[1]) if found else None


def test_every_complaint_with_a_test_names_it_in_its_row() -> None:
    tested = {number for test in defined() if (number := complaint_of(test)) is not None}
    assert {number for number in tested if f"`test_complaint_{number:02}" not in ROWS[number]} == set()


def test_every_test_that_is_named_exists() -> None:
    named = set(re.findall(r"`[\w/.]*?(?:::|\.)?(test_\w+?)(?:_…)?`", REPORTS))
    tests = set(defined())
    assert {name for name in named if not any(test.startswith(name) for test in tests)} == set()


def test_every_file_that_is_named_exists() -> None:
    for path in re.findall(r"`(tests/[\w/.]+?)/?(?:::\w+)?`", REPORTS):
        assert (TESTS.parent / path).exists(), path


def test_every_row_says_what_shows_it_or_that_nothing_does_yet() -> None:
    silent = [row for row in ROWS.values() if row.endswith("| nothing yet |")]
    assert all("**not yet**" in row for row in silent)
