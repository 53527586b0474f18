"""What went on while nobody listened, worked out from what was heard and the host's list."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fallback_plugin.attach.running import RunningSessions, end_events, status_event, turn_events
from fallback_plugin.events import SessionIdle, SessionStatus
from fallback_plugin.wire.event import read_event
from tests.attach.fake_server import answer, ended, event, status_is, updated, user

SESSIONS = ("ses_1", "ses_2", "ses_3")
WORDS = ("busy", "retry", "idle")


def standing(session_id: str, word: str = "busy") -> SessionStatus:
    found = read_event(status_is(session_id, word))
    assert isinstance(found, SessionStatus)
    return found


def listening_after(*before: dict[str, Any]) -> RunningSessions:
    """Return sessions followed so far, at the beginning of a new stream."""
    running = RunningSessions()
    for raw in before:
        running.see(raw)
    running.listen_anew()
    return running


def test_a_run_that_ended_unheard_is_known() -> None:
    running = listening_after(status_is("ses_1", "busy"), status_is("ses_2", "retry"))

    assert running.ended({"ses_2": standing("ses_2", "retry")}) == ["ses_1"]


@pytest.mark.parametrize(
    "end", [*ended("ses_1"), event("session.deleted", info={"id": "ses_1"}, sessionID="ses_1")]
)
def test_a_run_that_was_heard_to_end_is_not_ended_again(end: dict[str, Any]) -> None:
    assert listening_after(status_is("ses_1", "busy"), end).ended({}) == []


def test_what_the_new_stream_tells_is_newer_than_the_list() -> None:
    running = listening_after(status_is("ses_1", "busy"))
    running.see(status_is("ses_1", "busy"))
    running.see(status_is("ses_2", "idle"))

    assert running.ended({}) == []
    assert running.went_on({"ses_2": standing("ses_2")}) == []


def test_a_run_that_goes_on_is_told_as_it_stands() -> None:
    stands = {"ses_1": standing("ses_1", "retry"), "ses_2": standing("ses_2")}

    assert listening_after().went_on(stands) == list(stands.values())


@given(
    before=st.lists(st.tuples(st.sampled_from(SESSIONS), st.sampled_from(WORDS))),
    since=st.lists(st.tuples(st.sampled_from(SESSIONS), st.sampled_from(WORDS))),
    listed=st.dictionaries(st.sampled_from(SESSIONS), st.sampled_from(("busy", "retry"))),
)
def test_after_catching_up_a_session_runs_if_its_latest_news_says_so(
    before: list[tuple[str, str]], since: list[tuple[str, str]], listed: dict[str, str]
) -> None:
    running = listening_after(*(status_is(*news) for news in before))
    for news in since:
        running.see(status_is(*news))
    list_ = {session_id: standing(session_id, word) for session_id, word in listed.items()}

    for session_id in running.ended(list_):
        for raw in end_events(session_id):
            running.see(raw)
    for status in running.went_on(list_):
        running.see(status_event(status))
    running.caught_up()

    latest = dict(since)
    truth = {
        session_id
        for session_id in SESSIONS
        if latest.get(session_id, listed.get(session_id, "idle")) != "idle"
    }
    assert {session_id for session_id in SESSIONS if session_id in running} == truth


@given(
    st.sampled_from(WORDS),
    st.integers(1, 5),
    st.text(),
    st.none() | st.integers(0, 4_000_000_000_000).map(lambda ms: ms / 1000),
)
def test_a_status_written_as_an_event_reads_the_same(
    word: Any, attempt: int, message: str, next_at: float | None
) -> None:
    more: dict[str, Any] = (
        {"attempt": attempt, "message": message, "next_at": next_at} if word == "retry" else {}
    )
    status = SessionStatus(type="session.status", session_id="ses_1", status=word, **more)

    assert read_event(status_event(status)) == status


def test_an_end_is_written_as_the_hosts_two_events() -> None:
    first, last = map(read_event, end_events("ses_1"))

    assert isinstance(first, SessionStatus)
    assert first.status == "idle"
    assert isinstance(last, SessionIdle)


def stored(info: dict[str, Any], *parts: dict[str, Any]) -> dict[str, Any]:
    return {"info": info, "parts": list(parts)}


OLD = user("msg_01", "ses_1", "main/m")
OLD_ANSWER = answer("msg_02", "ses_1", "msg_01", "main/m", time={"created": 1, "completed": 2})
ASKED = user("msg_11", "ses_1", "main/m")
STEP = answer("msg_12", "ses_1", "msg_11", "main/m", time={"created": 3, "completed": 4}, finish="tool-calls")
AT_WORK = answer("msg_13", "ses_1", "msg_11", "main/m")
WAITING = user("msg_21", "ses_1", "main/m")
PART = {"id": "prt_1", "messageID": "msg_13", "sessionID": "ses_1", "type": "text", "text": "Half"}


@pytest.mark.parametrize(
    ("history", "told"),
    [
        ([], []),
        (None, []),
        ([stored(OLD), stored(OLD_ANSWER), stored(ASKED)], [ASKED]),
        ([stored(OLD), stored(OLD_ANSWER), stored(ASKED), stored(STEP), stored(AT_WORK)], [ASKED, AT_WORK]),
        ([stored(ASKED), stored(AT_WORK), stored(WAITING)], [ASKED, AT_WORK, WAITING]),
        ([stored(ASKED), stored(STEP)], [ASKED, STEP]),
        ([stored(AT_WORK)], []),
        (["nonsense", {"info": 7}, stored(ASKED)], [ASKED]),
    ],
)
def test_of_a_history_the_turn_under_way_is_told(history: object, told: list[dict[str, Any]]) -> None:
    assert [raw["properties"]["info"] for raw in turn_events("ses_1", history)] == told


def test_the_parts_of_a_step_follow_it() -> None:
    events = turn_events("ses_1", [stored(ASKED), stored(AT_WORK, PART)])

    assert events[-1] == {"type": "message.part.updated", "properties": {"sessionID": "ses_1", "part": PART}}
    assert [read_event(raw).type for raw in events] == [
        "message.updated",
        "message.updated",
        "message.part.updated",
    ]
    assert updated(AT_WORK)["properties"] == events[1]["properties"]
