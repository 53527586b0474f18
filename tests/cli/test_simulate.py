"""``fallback-plugin simulate``."""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import pytest
from click.testing import CliRunner, Result

from fallback_plugin.cli.main import command_line

OPENCODE: Final = Path(__file__).parents[1] / "opencode"
HOW_TO: Final = (Path(__file__).parents[2] / "docs" / "how-to.md").read_text(encoding="utf-8")


@pytest.fixture(autouse=True)
def mine(home: Path) -> None:
    (home / "mine.toml").write_text('[fallback]\nfallback_models = ["spare/a"]\n')


def run(trace: Path, *options: str) -> Result:
    return CliRunner().invoke(command_line, ["simulate", str(trace), "--config", "mine.toml", *options])


def recording(name: str) -> Path:
    return OPENCODE / "recordings" / f"{name}.jsonl"


def test_a_recording_is_played(home: Path) -> None:
    result = run(recording("429"))
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    (prompt,) = [line for line in lines if "run the turn in place on spare/a" in line]
    assert prompt.endswith("(fake/429: rate_limit)")
    assert lines[-1].endswith(": switched to spare/a (the recording does not show its answer)")
    assert [file.name for file in home.iterdir()] == ["mine.toml"]


def test_the_documented_output_is_what_is_printed() -> None:
    """But for the session's name and a rule, which are cut in the document."""
    (sample,) = re.findall(
        r"^\$ fallback-plugin simulate trace\.jsonl [^\n]*\n(.*?)^```", HOW_TO, re.MULTILINE | re.DOTALL
    )

    printed = re.sub(r"(ses_\w{8})\w*", r"\1", run(recording("429")).stdout)
    assert sample == re.sub(r"\|too many[^)]*…", "|…", printed)


def test_a_recording_is_played_as_json() -> None:
    told = [json.loads(line) for line in run(recording("429"), "--json").stdout.splitlines()]
    *steps, ending = told
    assert {frozenset(step) for step in steps} == {frozenset({"trace", "at", "session", "effect", "reason"})}
    assert "decide: switch" in [step["effect"] for step in steps]
    assert ending == {
        "trace": "",
        "session": steps[0]["session"],
        "outcome": "switched to spare/a",
        "reason": "the recording does not show its answer",
    }


@pytest.mark.parametrize(
    ("name", "end"),
    [
        ("ok", "nothing to do (nothing failed)"),
        ("400", ": nothing to do (no switch: no_fallback: fake/400: bad_request)"),
        ("hang", ": stopped by the user (aborted, and not by us)"),
    ],
)
def test_what_is_not_answered_says_why(name: str, end: str) -> None:
    result = run(recording(name))
    assert result.exit_code == 0
    assert result.stdout.splitlines()[-1].endswith(end)


def test_a_file_of_several_traces_ends_with_a_line_for_each() -> None:
    lines = run(OPENCODE / "host_traces.jsonl").stdout.splitlines()
    assert "rl: ses1: switched to spare/a (the recording does not show its answer)" in lines
    assert "ok: nothing to do (nothing failed)" in lines


def test_a_recording_may_hold_any_sign(home: Path) -> None:
    sources = recording("401").read_text(encoding="utf-8").split("\n")
    odd = [_with_model(json.loads(line), "\u2028\x1b[31m\ud800") for line in sources if line]
    lines = [json.dumps(line, ensure_ascii=False).encode("utf-8", "replace") for line in odd]
    (home / "odd.jsonl").write_bytes(b"\n".join(lines))
    (home / "escaped.jsonl").write_text("\n".join(map(json.dumps, odd)))
    for result in (
        run(home / "odd.jsonl"),
        run(home / "escaped.jsonl"),
        run(home / "escaped.jsonl", "--json"),
    ):
        assert result.exit_code == 0
        assert "switched to spare/a" in result.stdout.splitlines()[-1]
        assert "\x1b" not in result.stdout


def _with_model(line: Any, name: str) -> Any:
    return json.loads(json.dumps(line).replace('"401"', json.dumps(name)))


def test_what_the_how_tos_recorder_writes_is_a_recording(home: Path) -> None:
    (recorder,) = re.findall(r"^```python\n(.*?)^```", HOW_TO, re.MULTILINE | re.DOTALL)
    lines = map(json.loads, filter(None, recording("401").read_text(encoding="utf-8").split("\n")))
    stream = "".join(f"data: {json.dumps(line['event'])}\n\n" for line in lines if "event" in line)
    command = [sys.executable, "-c", recorder]
    recorded = subprocess.run(command, input=stream, capture_output=True, text=True, check=True).stdout
    (home / "trace.jsonl").write_text(recorded)
    assert "switched to spare/a" in run(home / "trace.jsonl").stdout.splitlines()[-1]


def test_a_file_that_is_no_recording_is_refused(home: Path) -> None:
    (home / "x.jsonl").write_text("\nnonsense\n")
    result = run(home / "x.jsonl")
    assert result.exit_code == 1
    assert result.stdout == ""
    assert result.stderr.startswith("error: line 2: this is no JSON")
