"""``fallback-plugin classify``: errors in, one verdict a line out."""

import json
from pathlib import Path
from typing import Any, Final

import pytest
from click.testing import CliRunner, Result

from fallback_plugin.cli.classify import classify
from fallback_plugin.cli.main import command_line

CORPUS: Final = Path(__file__).parents[1] / "fallback" / "corpus" / "errors.jsonl"


def run(given: str, *arguments: str) -> Result:
    return CliRunner().invoke(classify, arguments, input=given)


def verdicts(result: Result) -> list[dict[str, Any]]:
    return [json.loads(line) for line in result.stdout.splitlines()]


def test_a_text_is_judged() -> None:
    (found,) = verdicts(run("Weekly usage limit reached.\nResets in 19hr\n"))
    assert found.pop("rule").startswith("phrase:")
    assert found == {
        "id": None,
        "kind": "quota",
        "action": "fallback",
        "retries": 0,
        "scope": "account",
        "retry_after_s": 68_400,
    }


@pytest.mark.parametrize(
    ("text", "retries"),
    [
        ("Rate limit reached", 0),
        ("Service overloaded", 0),
        ("Internal server error", 0),
        ("Too many concurrent requests", 1),
        ("Something odd", 1),
    ],
)
def test_how_often_the_model_is_asked_again_before_the_next_is_told(text: str, retries: int) -> None:
    (found,) = verdicts(run(text))
    assert (found["action"], found["retries"]) == ("retry_then_fallback", retries)


def test_the_whole_corpus_is_judged_right_and_in_order() -> None:
    lines = [json.loads(line) for line in CORPUS.read_text().splitlines()]
    result = run(CORPUS.read_text(), "--jsonl")
    assert result.exit_code == 0
    found = [(each["id"], each["kind"], each["action"]) for each in verdicts(result)]
    assert found == [(line["id"], line["kind"], line["expected"]) for line in lines]


def test_the_answers_in_a_line_are_passed_over() -> None:
    line = {"id": 7, "error": {"text": "Too Many Requests"}, "kind": "auth", "expected": "no_fallback"}
    (found,) = verdicts(run(json.dumps({**line, "retry_after_s": 5, "scope": "provider"}), "--jsonl"))
    assert (found["id"], found["kind"], found["scope"], found["retry_after_s"]) == (
        7,
        "rate_limit",
        "model",
        None,
    )


@pytest.mark.parametrize("now", ["2026-03-01T15:00:00Z", "1772377200", "2026-03-01T16:00:00+01:00"])
def test_the_time_may_be_given(now: str) -> None:
    (found,) = verdicts(run("5-hour limit reached · resets 6am (Asia/Seoul)", "--now", now))
    assert found["retry_after_s"] == 21_600


def test_a_lines_own_time_and_provider_go_first() -> None:
    line = {
        "error": {"text": "400 status code (no body)", "http_status": 400},
        "provider": "cerebras",
        "now": "2026-03-01T15:00:00Z",
    }
    (found,) = verdicts(run(json.dumps(line), "--jsonl", "--provider", "openai", "--now", "0"))
    assert found["kind"] == "overflow"


@pytest.mark.parametrize("provider", ["cerebras", "openai"])
def test_the_provider_may_be_given(provider: str) -> None:
    line = json.dumps({"error": {"text": "400 status code (no body)", "http_status": 400}})
    (found,) = verdicts(run(line, "--jsonl", "--provider", provider))
    assert found["kind"] == ("overflow" if provider == "cerebras" else "bad_request")


@pytest.mark.parametrize(
    ("line", "advice"),
    [
        ("nonsense", "line 2: this is no JSON; write one object a line"),
        ("[]", 'line 2: this is no object; write {"error": …}'),
        ('{"id": 1}', "line 2: this names no error"),
        ('{"error": "x", "now": "yesterday"}', "line 2: Invalid isoformat string"),
        ('{"error": "x", "now": "2026-01-01"}', "line 2: a time needs a zone"),
    ],
)
def test_a_bad_line_is_named_and_the_others_are_judged(line: str, advice: str) -> None:
    good = json.dumps({"error": "Too Many Requests"})
    result = run(f"{good}\n{line}\n\n{good}\n", "--jsonl")
    assert result.exit_code == 1
    assert result.stderr.startswith(f"error: {advice}")
    assert [each["kind"] for each in verdicts(result)] == ["rate_limit", "rate_limit"]


def test_a_persons_rules_and_policy_are_honoured(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text(
        '[fallback.policy]\nbilling = "stop"\n'
        '[[fallback.rules]]\npattern = "house rule"\nkind = "billing"\nscope = "provider"\n'
    )
    (found,) = verdicts(run("House rule 7", "--config", str(file)))
    assert (found["kind"], found["action"], found["scope"]) == ("billing", "no_fallback", "provider")
    assert found["rule"] == "rule:house rule"


def test_a_time_that_is_none_is_refused_with_advice() -> None:
    result = run("x", "--now", "tomorrow")
    assert result.exit_code == 2
    assert "2026-08-20T10:00:00Z" in result.stderr


def test_a_settings_file_that_is_not_there_is_said(tmp_path: Path) -> None:
    result = CliRunner().invoke(command_line, ["classify", "--config", str(tmp_path / "no.toml")], input="x")
    assert result.exit_code == 1
    assert "there is no such file" in result.stderr
