"""Every phrase of the tables is shown by a sentence, and counts only where an error speaks."""

from typing import Final

import pytest

from fallback_plugin.fallback.classify import Failure, classify
from fallback_plugin.fallback.judgement import judge
from fallback_plugin.fallback.rules.order import RULES
from tests.fallback.failures import NOW, api_error
from tests.fallback.rules.examples import EXAMPLES, Example

IDS: Final = [example.text for example in EXAMPLES]


def understood(example: Example) -> Failure:
    return classify(api_error(example.text, example.status), NOW, provider=example.provider)


@pytest.mark.parametrize("example", EXAMPLES, ids=IDS)
def test_a_sentence_is_understood(example: Example) -> None:
    assert understood(example).kind == example.kind


def test_every_phrase_has_a_sentence_that_only_it_explains() -> None:
    shown = {understood(example).evidence for example in EXAMPLES}
    assert {row.name for row in RULES if row.phrase} - shown == set()


@pytest.mark.parametrize("example", EXAMPLES, ids=IDS)
def test_the_sentence_in_a_tools_output_is_no_failure(example: Example) -> None:
    found = judge({"tool_output": example.text}, NOW, provider=example.provider)
    assert (found.kind, found.action) == ("negative", "no_fallback")


@pytest.mark.parametrize("example", EXAMPLES, ids=IDS)
def test_the_sentence_in_an_answer_is_no_failure(example: Example) -> None:
    answer = f"I looked it up. The server says: {example.text}"
    for tokens in ({"input": 900, "output": 12}, {"input": 0, "output": 0}):
        found = judge({"assistant_text": answer, "finish": "stop", "tokens": tokens, "tools": 0}, NOW)
        assert (found.kind, found.action) == ("negative", "no_fallback")


@pytest.mark.parametrize(
    "text",
    [
        "I have 500 tokens left and 429 lines to read",
        "The limit of this function is 503",
        "We rate this highly",
        "The certain thing is unknown",
        "A key insight about quotation",
        "The modelling does not work",
        "The dayshift is over",
        "It capacitates people",
        "The load is over there",
    ],
)
def test_prose_that_only_sounds_alike_is_unknown(text: str) -> None:
    assert classify(api_error(text), NOW).kind == "unknown"
