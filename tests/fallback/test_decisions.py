"""What was decided is kept for another process to explain, within bounds, and never at the host's expense."""

import json
import multiprocessing
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fallback_plugin.fallback.classify import Failure
from fallback_plugin.fallback.decisions import DecisionLog, beside, last_answers, read_decisions
from fallback_plugin.fallback.effects import Abort, Failed, Record, Why
from fallback_plugin.fallback.state import PassedOver
from tests.fallback.stage import PRIMARY, A, B, Stage

WHY = Why(
    turn="msg_1",
    sign="the host reported an error",
    failed=PRIMARY,
    failure=Failure(kind="quota", scope="account", retry_after_s=60, http_status=429, evidence="code:x"),
    taken=B,
    passed_over=(PassedOver(A, "cooling", 1_060.0),),
    closes="account",
)


@pytest.fixture
def trouble() -> list[str]:
    return []


@pytest.fixture
def log(tmp_path: Path, trouble: list[str]) -> DecisionLog:
    return DecisionLog(beside(tmp_path / "state" / "health.sqlite3"), trouble.append)


def switched(session: str = "ses_1", *rest: str) -> list[Record]:
    return [Record(session, "switch", "why", WHY), *(Record(session, word, "so") for word in rest)]


def test_why_a_request_was_not_answered_inline_belongs_to_the_replay_it_led_to(log: DecisionLog) -> None:
    for record in (Record("ses_1", "not inline", "the answer had begun"), *switched("ses_1", "switched")):
        log.write(record, 1_000.0)
    (answer,) = last_answers(list(read_decisions(log.file)), "ses_1")
    assert [each["decision"] for each in answer] == ["switch", "not inline", "switched"]


def test_a_decision_is_read_as_it_was_written(log: DecisionLog) -> None:
    log.write(switched()[0], 1_000.0)
    assert list(read_decisions(log.file)) == [
        {
            "at": 1_000.0,
            "session": "ses_1",
            "decision": "switch",
            "reason": "why",
            "why": {
                "turn": "msg_1",
                "sign": "the host reported an error",
                "failed": "fake/primary",
                "kind": "quota",
                "scope": "account",
                "http_status": 429,
                "retry_after_s": 60,
                "rule": "code:x",
                "taken": "third/b",
                "passed_over": [{"model": "spare/a", "reason": "cooling", "until": 1_060.0}],
            },
        }
    ]
    assert log.file.stat().st_mode & 0o777 == 0o600


def test_without_a_file_nothing_was_decided(tmp_path: Path) -> None:
    assert list(read_decisions(tmp_path / "none.jsonl")) == []


def test_a_full_file_makes_room_and_the_one_before_is_gone(log: DecisionLog) -> None:
    log.max_bytes = 1_000
    for number in range(100):
        log.write(Record(f"ses_{number}", "switched", "x" * 50), number)
    kept = [decision["session"] for decision in read_decisions(log.file)]
    assert kept[-1] == "ses_99"
    assert 5 < len(kept) < 30
    assert sum(file.stat().st_size for file in log.file.parent.iterdir()) < 3_000


def test_two_that_find_it_full_at_once_make_room_once(
    log: DecisionLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    log.max_bytes = 500
    other = replace(log)
    look = os.fstat

    def look_late(descriptor: int) -> os.stat_result:
        seen = look(descriptor)
        monkeypatch.setattr(os, "fstat", look)
        other.write(Record("ses_2", "switched", "x" * 500), 2.0)
        other.write(Record("ses_3", "switched", "the first of a new file"), 3.0)
        return seen

    monkeypatch.setattr(os, "fstat", look_late)
    log.write(Record("ses_1", "switched", "x" * 500), 1.0)
    assert [decision["session"] for decision in read_decisions(log.file)] == ["ses_1", "ses_2", "ses_3"]


def test_one_that_another_has_renamed_just_now_is_no_trouble(
    log: DecisionLog, trouble: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    log.max_bytes = 100
    look = os.fstat

    def look_late(descriptor: int) -> os.stat_result:
        seen = look(descriptor)
        monkeypatch.setattr(os, "fstat", look)
        log.file.rename(log.file.with_name("decisions.jsonl.1"))
        return seen

    monkeypatch.setattr(os, "fstat", look_late)
    log.write(Record("ses_1", "switched", "x" * 500), 1.0)
    assert trouble == []
    assert len(list(read_decisions(log.file))) == 1


def test_lines_that_make_no_sense_are_passed_over(log: DecisionLog) -> None:
    log.write(switched()[0], 1.0)
    with log.file.open("ab") as file:
        file.write(b'{"half\n[]\n{"session": 5}\n\xff\xfe\n' + b"[" * 100_000 + b"\n")
    log.write(Record("ses_1", "switched", "so"), 2.0)
    assert [decision["decision"] for decision in read_decisions(log.file)] == ["switch", "switched"]


@pytest.mark.parametrize(
    "changes",
    [
        {"at": "noon"},
        {"at": float("nan")},
        {"at": 1e300},
        {"session": None},
        {"decision": 7},
        {"reason": None},
        {"why": {}},
        {"why": None},
        {"why.failed": 7},
        {"why.http_status": "429"},
        {"why.retry_after_s": []},
        {"why.passed_over": None},
        {"why.passed_over": [7]},
        {"why.passed_over": [{"model": "spare/a", "reason": "cooling", "until": 1e300}]},
    ],
    ids=str,
)
def test_a_line_of_another_shape_is_passed_over(log: DecisionLog, changes: dict[str, Any]) -> None:
    log.write(switched()[0], 1.0)
    (decision,) = map(dict, read_decisions(log.file))
    for key, value in changes.items():
        within, _, name = key.rpartition(".")
        (decision[within] if within else decision)[name] = value
    log.file.write_text(json.dumps(decision))
    assert list(read_decisions(log.file)) == []


def test_a_name_that_would_end_a_line_elsewhere_ends_none_here(log: DecisionLog) -> None:
    log.write(Record("ses_\u2028\x85\n", "switched", "so"), 1.0)
    assert [decision["session"] for decision in read_decisions(log.file)] == ["ses_\u2028\x85\n"]


def test_a_decision_too_long_for_one_write_is_cut(log: DecisionLog) -> None:
    log.write(Record("ses_1", "switch", "x" * 10_000, WHY), 1.0)
    (kept,) = read_decisions(log.file)
    assert kept == {"at": 1.0, "session": "ses_1", "decision": "switch", "reason": ""}


def test_of_too_many_candidates_their_number_is_kept(log: DecisionLog) -> None:
    many = replace(WHY, passed_over=WHY.passed_over * 100)
    log.write(Record("ses_1", "switch", "why", many), 1.0)
    (kept,) = read_decisions(log.file)
    assert kept["why"]["failed"] == "fake/primary"
    assert kept["why"]["passed_over"] == [
        {"model": "100 candidates", "reason": "too many to keep", "until": None}
    ]


def test_the_hosts_own_words_are_not_kept(log: DecisionLog) -> None:
    stage = Stage()
    stage.user()
    stage.answer("msg_2")
    stage.retry()
    stage.finish(stage.last(Abort), Failed("invalid: my secret"))
    assert "my secret" in stage.toasts[-1].message
    log.write(stage.last(Record), 1.0)
    (kept,) = read_decisions(log.file)
    assert kept["reason"] == "the host did not stop its run"
    assert "secret" not in log.file.read_text()


def test_half_a_surrogate_pair_is_no_trouble(log: DecisionLog, trouble: list[str]) -> None:
    log.write(Record("ses_\ud800", "switched", "so"), 1.0)
    assert len(list(read_decisions(log.file))) == 1
    assert trouble == []


def test_a_place_that_cannot_be_written_is_said_once(tmp_path: Path, trouble: list[str]) -> None:
    (tmp_path / "file").write_text("")
    log = DecisionLog(tmp_path / "file" / "decisions.jsonl", trouble.append)
    log.write(switched()[0], 1.0)
    log.write(switched()[0], 2.0)
    assert len(trouble) == 1
    assert "decisions are not kept" in trouble[0]


def test_the_answers_of_the_session_that_was_last_answered(log: DecisionLog) -> None:
    records = [
        *switched("ses_1", "switched"),
        *switched("ses_2", "dispatched", "user stopped"),
        Record("ses_1", "no switch: no_fallback", "later"),
        Record("ses_3", "no switch: child", "no answer at all"),
    ]
    for number, record in enumerate(records):
        log.write(record, number)
    decisions = list(read_decisions(log.file))
    (answer,) = last_answers(decisions)
    assert [each["decision"] for each in answer] == ["switch", "dispatched", "user stopped"]
    (other,) = last_answers(decisions, "ses_1")
    assert [each["decision"] for each in other] == ["switch", "switched", "no switch: no_fallback"]
    assert last_answers(decisions, "ses_3") == last_answers([], None) == []


def _write(file: Path, name: str) -> None:
    log = DecisionLog(file, print)
    for _ in range(200):
        log.write(Record(name, "switch", "why", WHY), 1.0)


def test_processes_that_write_at_once_lose_nothing(tmp_path: Path) -> None:
    file = tmp_path / "decisions.jsonl"
    spawn = multiprocessing.get_context("spawn")
    writers = [spawn.Process(target=_write, args=(file, f"ses_{number}")) for number in range(3)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    lines = file.read_text().splitlines()
    assert len(lines) == 600
    assert {json.loads(line)["session"] for line in lines} == {"ses_0", "ses_1", "ses_2"}


def test_the_engine_says_what_it_saw_passed_over_and_took() -> None:
    stage = Stage()
    stage.close(A, stage.now + 60)
    stage.user()
    stage.answer("msg_2")
    stage.retry()
    why = next(record.why for record in stage.effects if isinstance(record, Record) and record.why)
    assert (why.turn, why.failed, why.taken, why.failure.kind) == ("msg_1", PRIMARY, B, "rate_limit")
    assert why.sign == "the host waited to ask the model again"
    (passed,) = why.passed_over
    assert (passed.model, passed.reason) == (A, "cooling")
    assert passed.until == pytest.approx(stage.now + 60, abs=1)


def test_the_engine_says_so_when_no_model_was_left() -> None:
    stage = Stage()
    stage.close(A, stage.now + 60)
    stage.close(B, stage.now + 60)
    stage.user()
    stage.answer("msg_2")
    stage.retry()
    (record,) = [each for each in stage.all(Record) if each.decision == "exhausted"]
    assert record.why is not None
    assert record.why.taken is None
    assert [passed.model for passed in record.why.passed_over] == [A, B]
