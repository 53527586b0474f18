"""Every real error of the corpus is judged as people have found right: kind, action, reset time, scope."""

import json
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import pytest

from fallback_plugin.fallback.judgement import judge


def lines_of(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (Path(__file__).parent / "corpus" / name).read_text().splitlines()]


CORPUS: Final = lines_of("errors.jsonl")
WORDINGS: Final = lines_of("wordings.jsonl")
"""Sentences of providers beyond the corpus; their kind is what a person says who reads them."""

NOW: Final = 1_780_000_000.0


def now_of(line: dict[str, Any]) -> float:
    return datetime.fromisoformat(line["now"]).timestamp() if "now" in line else NOW


@pytest.mark.parametrize("line", CORPUS, ids=[line["id"] for line in CORPUS])
def test_an_error_of_the_corpus_is_judged_right(line: dict[str, Any]) -> None:
    found = judge(line["error"], now_of(line), provider=line["provider"])

    assert (found.kind, found.action) == (line["kind"], line["expected"])
    assert found.retry_after_s == pytest.approx(line["retry_after_s"])
    assert line.get("scope") in (None, found.scope)


@pytest.mark.parametrize("line", WORDINGS, ids=[line["id"] for line in WORDINGS])
def test_other_sentences_of_the_same_kinds_are_understood(line: dict[str, Any]) -> None:
    found = judge(line["error"], now_of(line), provider=line["provider"])
    assert (found.kind, found.retry_after_s) == (line["kind"], line["retry_after_s"])


@pytest.mark.parametrize("line", CORPUS + WORDINGS, ids=[line["id"] for line in CORPUS + WORDINGS])
def test_the_same_words_in_a_tools_output_are_no_failure(line: dict[str, Any]) -> None:
    assert judge({"tool_output": json.dumps(line["error"])}, NOW).action == "no_fallback"


@pytest.mark.parametrize("line", CORPUS + WORDINGS, ids=[line["id"] for line in CORPUS + WORDINGS])
def test_the_same_words_in_an_answer_that_cost_tokens_are_no_failure(line: dict[str, Any]) -> None:
    report = {"assistant_text": json.dumps(line["error"]), "tokens": {"input": 900, "output": 20}}
    assert (judge(report, NOW).kind, judge(report, NOW).action) == ("negative", "no_fallback")


def test_no_line_needs_to_name_its_provider_to_leave_the_model() -> None:
    """A gateway gives a provider any name; what is known by its words alone must not depend on it."""
    differing = {
        line["id"]
        for line in CORPUS
        if judge(line["error"], now_of(line), provider="my-own-gateway").action != line["expected"]
    }
    assert differing == {"cerebras-400-nobody"}
