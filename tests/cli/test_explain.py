"""``fallback-plugin explain``."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from fallback_plugin.agent.providers.failure import KEY_MISSING, MODEL_NOT_FOUND
from fallback_plugin.agent.providers.registry import key_problem
from fallback_plugin.cli.main import command_line
from fallback_plugin.events import Ending, HostError
from fallback_plugin.fallback import effects
from fallback_plugin.fallback.classify import Failure
from fallback_plugin.fallback.decisions import DecisionLog
from fallback_plugin.fallback.effects import Record, Why
from fallback_plugin.fallback.engine import Engine
from fallback_plugin.fallback.state import PassedOver
from fallback_plugin.settings import ProviderSettings
from tests.fallback.stage import PRIMARY, A, B, Stage, settings
from tests.fallback.test_inline import begin, failed


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
        "account",
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


def test_P10_an_exhausted_chain_is_explained_with_every_reason(log: DecisionLog) -> None:
    limited = Failure(kind="rate_limit", http_status=429)
    rows = (PassedOver(PRIMARY, "out of quota"), PassedOver(A, "rate limited (429)", 60.0))
    log.write(Record("ses_1", "exhausted", "exhausted", Why("msg_1", "", B, limited, None, rows)), 1.0)
    lines = [line.strip() for line in run("explain").stdout.splitlines()]
    assert lines[1:3] == ["failed:      third/b", "because:     rate_limit (status 429)"]
    assert lines[6] == "no answer:   fake/primary: out of quota"
    assert lines[7].startswith("no answer:   spare/a: rate limited (429) until ")


def test_a_model_that_a_redirect_passed_over_is_said_once(log: DecisionLog) -> None:
    """Also where the chain names the closed primary, and in decisions that hold it twice."""
    for chain in (("fake/primary", "spare/a"), ("spare/a", "fake/primary", "third/b")):
        stage = Stage(Engine(settings(chain)))
        stage.close(PRIMARY, stage.now + 60)
        if chain[0] == "spare/a":
            stage.close(A, stage.now + 60)
        stage.choose(PRIMARY)
        (record,) = (each for each in stage.all(effects.Record) if each.decision == effects.REDIRECT)
        assert record.why is not None
        models = [each.model for each in record.why.passed_over]
        assert models == list(dict.fromkeys(models))

    twice = Why("msg_1", "", PRIMARY, failure(), B, (PassedOver(A, "cooling"), PassedOver(A, "cooling")))
    log.write(Record("ses_1", "switch", "why", twice), 1.0)
    assert run("explain").stdout.count("passed over:") == 1


@pytest.mark.parametrize(
    ("error", "seen"),
    [
        (
            HostError(
                name=KEY_MISSING, message=f"fake: {key_problem(ProviderSettings(api_key_env='F_KEY'), {})}"
            ),
            "no request was sent, no key is set: the environment variable F_KEY holds no key",
        ),
        (
            HostError(
                name="LoadAPIKeyError", message="Pass it, or set the OPENAI_API_KEY environment variable."
            ),
            "no request was sent, no key is set: the environment variable OPENAI_API_KEY holds no key",
        ),
        (HostError(name="ProviderAuthError", message="log in"), "no request was sent, no key is set"),
        (
            HostError(name=MODEL_NOT_FOUND, message="Model not found: fake/primary."),
            "no request was sent, unknown to the host",
        ),
    ],
)
def test_of_a_failure_without_a_request_it_is_said_that_none_was_sent_and_nothing_closed(
    error: HostError, seen: str, log: DecisionLog
) -> None:
    inline, replay = begin(), begin("replay")
    assert failed(inline, error=error) == A
    replay.error({"name": error.name, "data": {"message": error.message}})
    for stage in (inline, replay):
        switched = next(each for each in stage.all(Record) if each.decision == "switch")
        log.write(switched, stage.now)
        lines = [line.strip() for line in run("explain").stdout.splitlines()]
        assert f"seen as:     {seen}" in lines
        assert "closes:      nothing" in lines
        assert stage.all(effects.CloseModel) == []


def test_of_the_last_model_left_it_is_said_as_well(log: DecisionLog) -> None:
    stage = Stage(Engine(settings(("fake/primary",))))
    stage.user()
    stage.answer("msg_2")
    message = "the environment variable F_KEY holds no key"
    stage.error({"name": "ProviderAuthError", "data": {"message": message}})
    (record,) = (each for each in stage.all(Record) if each.decision == "exhausted")
    log.write(record, stage.now)
    said = run("explain").stdout
    assert "no request was sent, no key is set: the environment variable F_KEY holds no key" in said
    assert "closes:      nothing" in said


@pytest.mark.parametrize(("ending", "closes"), [("empty", "nothing"), ("cut", "model")])
def test_what_is_closed_is_told_as_it_was_done(ending: Ending, closes: str, log: DecisionLog) -> None:
    stage = begin()
    assert failed(stage, ending=ending) == A
    log.write(next(each for each in stage.all(Record) if each.decision == "switch"), stage.now)
    assert f"  closes:      {closes}" in run("explain").stdout.splitlines()


def test_P4_a_redirect_is_explained_with_its_end(log: DecisionLog) -> None:
    stage = Stage()
    stage.close(PRIMARY, stage.now + 60)
    stage.choose(PRIMARY)
    stage.now += 60
    stage.choose(A)
    for record in stage.all(effects.Record):
        log.write(record, stage.now)
    said = run("explain").stdout
    assert "session ses_1: fake/primary → spare/a" in said
    assert "passed over: fake/primary: cooling until " in said
    assert said.rstrip().endswith("back (fake/primary may be asked again)")


def test_why_a_request_was_not_answered_inline_is_told(log: DecisionLog) -> None:
    log.write(Record("ses_1", "not inline", "spare/a: the answer had begun"), 1.0)
    log.write(switch(), 2.0)
    assert "  not inline:  spare/a: the answer had begun" in run("explain").stdout.splitlines()


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
    log.write(Record("ses_9", "no switch: no chain", "fake/primary: quota"), 1.0)
    result = run("explain", *arguments)
    assert result.exit_code == 0
    assert result.stdout.startswith(f"no failure{of} has been answered yet")
    assert str(log.file) in result.stdout


def test_the_beginning_of_an_id_names_its_session(log: DecisionLog) -> None:
    for session in ("ses_de13884e77", "ses_de2", "ses_de"):
        log.write(switch(session), 1.0)
    assert "session ses_de13884e77: " in run("explain", "ses_de13884e").stdout
    assert "session ses_de: " in run("explain", "ses_de").stdout
    log.write(switch("ses_f1"), 2.0)
    assert "session ses_f1: " in run("explain", "ses_f").stdout


@pytest.mark.parametrize(
    ("kept", "given", "problem"),
    [
        ([], "ses_9", "{file} knows of no session 'ses_9'; it knows of none yet"),
        (["ses_1", "ses_2"], "ses_9", "{file} knows of no session 'ses_9'; the latest ones are ses_2, ses_1"),
        (["ses_1", "ses_2"], "", "{file} knows of no session ''; the latest ones are ses_2, ses_1"),
        (["ses_1", "ses_2"], "ses_", "'ses_' is the beginning of several sessions: ses_2, ses_1"),
        (
            [f"ses_{number}" for number in range(7)],
            "other",
            "{file} knows of no session 'other'; the latest ones are ses_6, ses_5, ses_4, ses_3, ses_2, …",
        ),
    ],
)
def test_an_id_that_names_no_session_is_an_error_which_names_the_latest(
    kept: list[str], given: str, problem: str, log: DecisionLog
) -> None:
    for session in kept:
        log.write(switch(session), 1.0)
    result = run("explain", given)
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == f"error: {problem.format(file=log.file)}\n"


def test_a_decision_without_its_reason_is_told_all_the_same(log: DecisionLog) -> None:
    log.write(Record("ses_1", "switch", "x" * 10_000, switch().why), 1.0)
    result = run("explain")
    assert result.exit_code == 0
    assert result.stdout.endswith("session ses_1: switch; the reason was too long to keep\n")


def test_a_damaged_file_is_told_as_far_as_it_makes_sense(log: DecisionLog) -> None:
    log.write(switch(), 1.0)
    with log.file.open("a") as file:
        file.write('{"session": "ses_1", "decision": "switch"}\n{"half')
    result = run("explain")
    assert result.exit_code == 0
    assert "fake/primary → third/b" in result.stdout


def test_a_name_moves_no_cursor(log: DecisionLog) -> None:
    log.write(switch("ses_\x1b[2J\ud800"), 1.0)
    for options in ([], ["--json"]):
        result = run("explain", *options)
        assert result.exit_code == 0
        assert "\x1b" not in result.stdout


def test_a_file_that_cannot_be_read_is_an_error(log: DecisionLog) -> None:
    log.file.mkdir(parents=True)
    result = run("explain")
    assert result.exit_code == 1
    assert result.stdout == ""
    assert result.stderr == f"error: {log.file}: it cannot be read (Is a directory)\n"


def test_another_process_explains_what_a_plugin_decided(home: Path, log: DecisionLog) -> None:
    stage = Stage()
    stage.user()
    stage.answer("msg_2")
    stage.retry()
    stage.fail_over("msg_3", A)
    for record in stage.all(Record):
        log.write(record, stage.now)
    told = subprocess.run(
        [sys.executable, "-m", "fallback_plugin", "explain"],
        env={**os.environ, "HOME": str(home)},
        capture_output=True,
        text=True,
        check=True,
    ).stdout.splitlines()
    assert told[0].endswith("session ses_1: fake/primary → spare/a")
    assert told[-1].endswith("switched (spare/a)")
