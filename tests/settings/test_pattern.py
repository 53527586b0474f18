"""A person's regular expression cannot keep the classifier busy."""

import re

import pytest

from fallback_plugin.settings.pattern import checked_pattern


@pytest.mark.parametrize(
    "pattern",
    [
        "queue is full",
        r"limit .* reached .*",
        r"(?:daily|weekly) limit",
        r"(?:a|b){1,3}",
        r"\(a+\)+",
        r"[(a+)]+b",
        r"a{2,5}b+",
        r"[]*+]+",
        r"\d+ (?:of|from) \d+",
    ],
)
def test_what_is_quick_is_taken_as_it_is(pattern: str) -> None:
    assert checked_pattern(pattern) == pattern


@pytest.mark.parametrize(
    "pattern", [r"(a+)+$", r"(?:a|a)*b", r"((ab)*c)+", r"(?:x{2,})+", r"(?:(?:a|b)c)+", r"(.*a){2,}"]
)
def test_a_repeat_of_a_repeat_or_of_a_choice_is_refused(pattern: str) -> None:
    with pytest.raises(ValueError, match="could take very long"):
        checked_pattern(pattern)


def test_many_repeats_are_refused_with_advice() -> None:
    with pytest.raises(ValueError, match=re.escape("write .{0,80} for .*")):
        checked_pattern(".*a.*b.*c")


@pytest.mark.parametrize("pattern", ["(", "[a", "*", "(?P<x>a)(?P<x>b)", ")"])
def test_what_is_no_pattern_is_refused(pattern: str) -> None:
    with pytest.raises(ValueError, match="is not a regular expression"):
        checked_pattern(pattern)
