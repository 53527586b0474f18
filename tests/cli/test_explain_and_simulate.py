"""``fallback-plugin explain`` and ``fallback-plugin simulate``."""

import json
from pathlib import Path
from typing import Final

import pytest
from click.testing import CliRunner, Result

from fallback_plugin.cli.main import command_line
from fallback_plugin.fallback.classify import Failure
from fallback_plugin.fallback.decisions import DecisionLog
from fallback_plugin.fallback.effects import Record, Why
from fallback_plugin.fallback.state import PassedOver
from tests.fallback.stage import PRIMARY, A, B

RECORDINGS: Final = Path(__file__).parents[1] / "opencode" / "recordings"


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("TZ", "UTC")
    for variable in ("XDG_CONFIG_HOME", "XDG_STATE_HOME"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def log(home: Path) -> DecisionLog:
    return DecisionLog(home / ".local" / "state" / "fallback-plugin" / "decisions.jsonl", print)


def run(*arguments: str) -> Result:
    return CliRunner().invoke(command_line, arguments)


def failure(**changes: object) -> Failure:
    return Failure(kind="quota", scope="account", evidence="code:insufficient_quota", **changes)  # type: ignore[arg-type]


def switch(session: str = "ses_1") -> Record:
    why = Why(
        "msg_1",
        "the host reported an error",
        PRIMARY,
        failure(http_status=429, retry_after_s=60.0),
        B,
        (PassedOver(A, "cooling", 1_787_220_060.0), PassedOver(PRIMARY, "takes no images")),
    )
    return Record(session, "switch", "why", why)


def test_the_last_switch_is_explained(log: DecisionLog) -> None:
    log.write(switch("ses_0"), 1.0)
    log.write(switch(), 1_787_220_000.0)
    log.write(Record("ses_1", "switched", "third/b"), 1_787_220_003.0)
    result = run("explain")
    assert result.exit_code == 0
    assert "session ses_1: fake/primary → third/b" in result.stdout
    lines = [line.strip() for line in result.stdout.splitlines()[1:]]
    assert lines[:5] == [
        "failed:      fake/primary",
        "because:     quota (status 429), told to wait 60 s",
        "seen as:     the host reported an error",
        "rule:        code:insufficient_quota",
        "closes:      account",
    ]
    assert lines[5].startswith("passed over: spare/a: cooling until 2026-08-20")
    assert lines[6:8] == ["passed over: fake/primary: takes no images", "taken:       third/b"]
    assert lines[8].endswith("switched (third/b)")
    assert "ses_0" not in result.stdout


def test_every_answer_of_a_session_may_be_asked_for(log: DecisionLog) -> None:
    log.write(switch(), 1.0)
    log.write(Record("ses_1", "retry", "why", switch().why), 2.0)
    log.write(Record("ses_1", "exhausted", "why", Why("msg_1", "", PRIMARY, failure())), 3.0)
    text = run("explain", "ses_1", "--all").stdout
    assert "fake/primary → third/b" in text
    assert "fake/primary was asked once more" in text
    assert "no model was left" in text
    assert "taken:       nothing: no candidate was left" in text
    found = [json.loads(line) for line in run("explain", "ses_1", "--json", "--all").stdout.splitlines()]
    assert [each["decision"] for each in found] == ["switch", "retry", "exhausted"]
    (last,) = [json.loads(line) for line in run("explain", "ses_1", "--json").stdout.splitlines()]
    assert last["decision"] == "exhausted"


@pytest.mark.parametrize(("arguments", "of"), [([], ""), (["ses_9"], " of session ses_9")])
def test_where_nothing_was_answered_that_is_said(arguments: list[str], of: str, log: DecisionLog) -> None:
    result = run("explain", *arguments)
    assert result.exit_code == 0
    assert result.stdout.startswith(f"no failure{of} has been answered yet")
    assert str(log.file) in result.stdout


@pytest.fixture
def settings_file(home: Path) -> str:
    file = home / "mine.toml"
    file.write_text('[fallback]\nfallback_models = ["spare/a"]\n')
    return str(file)


def test_a_recording_is_played(settings_file: str) -> None:
    result = run("simulate", str(RECORDINGS / "429.jsonl"), "--config", settings_file)
    assert result.exit_code == 0
    assert "run the turn in place on spare/a" in result.stdout
    assert result.stdout.splitlines()[-1].endswith("last: run the turn in place on spare/a")


def test_a_recording_is_played_as_json(settings_file: str) -> None:
    result = run("simulate", str(RECORDINGS / "429.jsonl"), "--config", settings_file, "--json")
    steps = [json.loads(line) for line in result.stdout.splitlines()]
    assert set(steps[0]) == {"trace", "at", "session", "effect", "reason"}
    assert "decide: switch" in [step["effect"] for step in steps]


@pytest.mark.parametrize(("name", "end"), [("ok", "nothing failed"), ("400", "no switch: no_fallback")])
def test_what_needs_nothing_is_said(name: str, end: str, settings_file: str) -> None:
    result = run("simulate", str(RECORDINGS / f"{name}.jsonl"), "--config", settings_file)
    assert f"nothing is sent: {end}" in result.stdout.splitlines()[-1]


def test_a_file_that_is_no_recording_is_refused(home: Path) -> None:
    (home / "x.jsonl").write_text("nonsense\n")
    result = run("simulate", str(home / "x.jsonl"))
    assert result.exit_code == 1
    assert result.stderr.startswith("error: line 1: this is no JSON")
