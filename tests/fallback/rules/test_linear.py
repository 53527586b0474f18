"""No text can keep the rules busy for long: how that is known.

A pattern without a repeat inside of another and without a choice inside of one divides a text in no more ways
than a fixed power of its length; ours hold one repeat without an end at most, and no more than a few thousand
characters of an error are read. So the work for one error is bounded, whatever a provider sends.
"""

import re
from typing import Final

import pytest

from fallback_plugin.events import HostError
from fallback_plugin.fallback import judgement, reset_words
from fallback_plugin.fallback.evidence import MAX_TEXT, gather
from fallback_plugin.fallback.rules import statuses
from fallback_plugin.fallback.rules.host import NAMES
from fallback_plugin.fallback.rules.order import RULES
from fallback_plugin.settings.pattern import checked_pattern

ENDLESS: Final = re.compile(r"(?<!\\)(?<!\[)[*+](?![^\[]*\])|\{\d*,\}")
PHRASES: Final = [row.phrase for row in (*NAMES, *RULES) if row.phrase]
OTHERS: Final = {
    "a stated status": statuses._stated().pattern,
    "a notice": judgement._notice().pattern,
    **{
        name: getattr(reset_words, name)().pattern
        for name in (
            "_duration",
            "_introduction",
            "_follow_up",
            "_joint",
            "_iso",
            "_dated",
            "_clock",
            "_epoch",
        )
    },
}


@pytest.mark.parametrize("pattern", [*PHRASES, *OTHERS.values()], ids=[*PHRASES, *OTHERS])
def test_a_pattern_has_one_way_to_repeat_at_most(pattern: str) -> None:
    assert checked_pattern(pattern) == pattern
    assert len(ENDLESS.findall(pattern)) <= 1


@pytest.mark.parametrize("size", [10_000, 1_000_000])
def test_no_more_of_an_error_is_searched_than_fits(size: int) -> None:
    body = '{"error": {"message": "' + "x" * size + '"}}'
    shown = gather(HostError(name="APIError", message="y" * size, response_body=body))
    assert len(shown.text) <= MAX_TEXT
