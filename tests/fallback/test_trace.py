"""Recordings are read line by line; what is none is refused with the line and what is expected."""

import json
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fallback_plugin.errors import TraceError
from fallback_plugin.events import SessionIdle
from fallback_plugin.fallback.simulation import Ending, simulate
from fallback_plugin.fallback.trace import EXPECTED, Moment, read_trace
from tests.fallback.stage import settings

OPENCODE: Final = Path(__file__).parents[1] / "opencode"
IDLE: Final = {"type": "session.idle", "properties": {"sessionID": "ses_1"}}


def read(*lines: object) -> list[Moment]:
    return list(read_trace(map(json.dumps, lines)))


@pytest.mark.parametrize(
    ("line", "trace", "at"),
    [
        ({"t": 1.5, "event": IDLE}, "", 1.5),
        ({"t": 1.5, "event": {"directory": "/x", "payload": IDLE}}, "", 1.5),
        ({"trace": "rl", "seq": 3, "t_ms": 1500, **IDLE}, "rl", 1.5),
        (IDLE, "", 0.0),
    ],
    ids=["recorded", "of all folders", "traced", "bare"],
)
def test_an_event_is_read_with_its_time(line: dict[str, Any], trace: str, at: float) -> None:
    event = SessionIdle(type="session.idle", sequence=1, session_id="ses_1")
    assert read(line) == [Moment(trace, at, event)]


@pytest.mark.parametrize(
    "line",
    [
        {"t": 1, "note": "lines are left out"},
        {"t": 1, "client": {"did": "POST"}},
        {"t": 1, "provider": {}},
        {"t": 1, "event": {"payload": {"type": "sync"}}},
        {"t_ms": 1, "type": "HOOK chat.message", "properties": {}},
        {"t": 1, "event": {"type": "session.idle", "properties": {}}},
        {"t": 1, "event": {"type": "message.updated", "properties": {"info": 7, "sessionID": "ses_1"}}},
    ],
    ids=lambda line: json.dumps(line)[:40],
)
def test_what_a_host_would_not_hand_on_is_passed_over(line: dict[str, Any]) -> None:
    assert [moment.at for moment in read(line, {"t": 2, "event": IDLE})] == [2.0]


NO_EVENT: Final = "this is no event of a host; write {"


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("nonsense", "this is no JSON; a recording has one object a line"),
        ("[" * 100_000, "this is no JSON"),
        ("[]", NO_EVENT),
        ("7", NO_EVENT),
        ('{"some": "thing"}', NO_EVENT),
        ('{"event": 5}', NO_EVENT),
        ('{"event": {"properties": {}}}', NO_EVENT),
        ('{"type": "session.idle"}', NO_EVENT),
        (json.dumps({"t": "soon", "event": IDLE}), 'the time "t" is no number'),
        (json.dumps({"t": None, "event": IDLE}), 'the time "t" is no number'),
        (json.dumps({"t": float("nan"), "event": IDLE}), 'the time "t" is no number'),
        (json.dumps({"t": float("inf"), "event": IDLE}), 'the time "t" is no number'),
        (json.dumps({"t": 10**400, "event": IDLE}), 'the time "t" is no number'),
        (json.dumps({"t_ms": "soon", **IDLE}), 'the time "t_ms" is no number'),
    ],
    ids=lambda text: text[:30],
)
def test_what_is_no_recording_is_refused_with_its_line_and_advice(line: str, problem: str) -> None:
    with pytest.raises(TraceError) as refused:
        list(read_trace(['{"t": 0, "client": {}}', "", line]))
    assert str(refused.value).startswith(f"line 3: {problem}")
    assert (EXPECTED in str(refused.value)) is (problem is NO_EVENT)


@pytest.mark.parametrize("path", sorted(OPENCODE.rglob("*.jsonl")), ids=lambda path: path.stem)
def test_no_event_of_a_real_recording_is_lost(path: Path) -> None:
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").split("\n") if line]
    events = [line.get("event", line) for line in lines if "event" in line or "type" in line]
    of_a_host = [each for each in (event.get("payload", event) for event in events) if _told(each)]
    assert len(read(*lines)) == len(of_a_host) > 0


def _told(event: dict[str, Any]) -> bool:
    return event["type"] != "sync" and not event["type"].startswith("HOOK")


VALUES: Final = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | st.just("ses_1"),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
TYPES: Final = st.sampled_from(
    ["session.created", "session.status", "session.error", "message.updated", "message.part.updated"]
)
MANGLED: Final = st.fixed_dictionaries(
    {
        "t": st.floats(0, 1e6) | VALUES,
        "event": st.fixed_dictionaries(
            {
                "type": TYPES,
                "properties": st.fixed_dictionaries(
                    {"sessionID": st.just("ses_1")},
                    optional=dict.fromkeys(("info", "part", "status", "error"), VALUES),
                )
                | VALUES,
            }
        ),
    }
)


@given(st.lists(MANGLED | VALUES, max_size=6))
def test_any_json_is_played_or_refused(lines: list[Any]) -> None:
    try:
        moments = read(*lines)
    except TraceError:
        return
    assert isinstance(list(simulate(moments, settings(("spare/a",))))[-1], Ending)


@given(st.data(), st.sampled_from(["429", "401", "empty", "error-mid", "tool"]))
def test_a_real_recording_with_something_mangled_is_played_or_refused(data: st.DataObject, name: str) -> None:
    lines = (OPENCODE / "recordings" / f"{name}.jsonl").read_text(encoding="utf-8").split("\n")
    sources = [json.loads(line) for line in lines if line]
    for _ in range(3):
        place: Any = data.draw(st.sampled_from(sources))
        while isinstance(place, dict) and place:
            key = data.draw(st.sampled_from(sorted(place)))
            if not isinstance(place[key], dict) or data.draw(st.booleans()):
                place[key] = data.draw(VALUES)
                break
            place = place[key]
    try:
        moments = read(*sources)
    except TraceError:
        return
    assert isinstance(list(simulate(moments, settings(("spare/a", "third/b"))))[-1], Ending)
