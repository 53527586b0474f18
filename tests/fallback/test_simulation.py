"""Recordings of the real host, played without it."""

from pathlib import Path
from typing import Any, Final

import pytest

from fallback_plugin.fallback.simulation import Step, TraceError, read_trace, simulate
from tests.fallback.stage import settings

OPENCODE: Final = Path(__file__).parents[1] / "opencode"
CHAIN: Final = ("spare/a", "third/b")


def played(file: Path, **changes: Any) -> list[Step]:
    moments = read_trace(file.read_text().splitlines())
    return list(simulate(moments, settings(CHAIN, **changes)))


def recording(name: str) -> Path:
    return OPENCODE / "recordings" / f"{name}.jsonl"


@pytest.mark.parametrize("name", ["429", "401", "402", "503", "error-mid", "close"])
def test_a_recorded_failure_is_answered_once_and_says_why(name: str) -> None:
    steps = played(recording(name))
    effects = [step.effect for step in steps]
    assert effects.count("stop the run") == 1
    assert [effect for effect in effects if effect.startswith("run ")] == ["run the turn in place on spare/a"]
    (why,) = [step.reason for step in steps if step.effect == "decide: switch"]
    assert why.startswith("fake/")


def test_an_empty_answer_is_taken_back() -> None:
    effects = [step.effect for step in played(recording("empty"))]
    assert [effect.split(" msg")[0] for effect in effects if "take" in effect or "run" in effect] == [
        "take back",
        "run the message anew on spare/a",
    ]


@pytest.mark.parametrize("name", ["ok", "tool", "length", "400"])
def test_where_nothing_is_to_be_done_nothing_is_sent(name: str) -> None:
    assert not [step for step in played(recording(name)) if step.effect.startswith(("run", "stop", "show"))]


def test_timers_run_by_the_recordings_clock() -> None:
    steps = played(recording("hang"), first_token_timeout="10s")
    (stopped,) = [step.at for step in steps if step.effect == "stop the run"]
    assert 10 <= stopped <= 10.5


def test_each_trace_of_a_file_is_played_by_itself() -> None:
    steps = played(OPENCODE / "host_traces.jsonl")
    assert {"auth", "pay", "quota", "rl"} <= {step.trace for step in steps if step.effect == "stop the run"}
    assert {"ok", "bad"}.isdisjoint({step.trace for step in steps if step.effect == "stop the run"})


def test_blank_lines_and_what_is_no_event_are_passed_over() -> None:
    lines = ["", '{"t": 1, "note": "x"}', '{"t": 1, "client": {}}', '{"t": 2, "event": {"type": "odd"}}']
    assert list(simulate(read_trace(lines), settings())) == []


@pytest.mark.parametrize(
    ("line", "advice"),
    [
        ("nonsense", "line 2: this is no JSON"),
        ("[]", "line 2: this is no event of a host; write"),
        ('{"some": "thing"}', "line 2: this is no event of a host; write"),
    ],
)
def test_a_file_that_is_no_recording_is_refused_with_advice(line: str, advice: str) -> None:
    with pytest.raises(TraceError, match=advice):
        list(read_trace(['{"t": 0, "client": {}}', line]))
