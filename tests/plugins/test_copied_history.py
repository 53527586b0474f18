"""What a fork copies is no activity; what happens in the fork afterwards is."""

from typing import Any, Final

from fallback_plugin.plugins.copied_history import CopiedHistory
from fallback_plugin.wire.event import read_event

FORK: Final = "ses_fork"
MODEL: Final = {"providerID": "fake", "modelID": "answers"}
CREATED: Final = {
    "type": "session.created",
    "properties": {"sessionID": FORK, "info": {"id": FORK, "time": {"created": 5378}}},
}


def user(message_id: str, created: int) -> dict[str, Any]:
    info = {"id": message_id, "sessionID": FORK, "role": "user", "time": {"created": created}, "model": MODEL}
    return {"type": "message.updated", "properties": {"sessionID": FORK, "info": info}}


def answer(message_id: str, created: int) -> dict[str, Any]:
    info = {
        "id": message_id,
        "sessionID": FORK,
        "role": "assistant",
        "parentID": "msg_1",
        "time": {"created": created, "completed": created + 400},
        **MODEL,
    }
    return {"type": "message.updated", "properties": {"sessionID": FORK, "info": info}}


def part(message_id: str) -> dict[str, Any]:
    its = {"id": f"prt_{message_id}", "messageID": message_id, "sessionID": FORK, "type": "text", "text": "…"}
    return {"type": "message.part.updated", "properties": {"sessionID": FORK, "part": its}}


def status(word: str) -> dict[str, Any]:
    return {"type": "session.status", "properties": {"sessionID": FORK, "status": {"type": word}}}


def copies(*told: dict[str, Any]) -> list[bool]:
    history = CopiedHistory()
    return [history.is_copy(read_event(raw)) for raw in told]


# The order and the times are those of OpenCode 1.18.33, shortened.
COPIED: Final = (user("msg_1", 3128), part("msg_1"), answer("msg_2", 3798), part("msg_2"), part("msg_2"))


def test_H4_what_a_fork_copies_is_told_apart_from_what_happens_in_it() -> None:
    happens = (user("msg_3", 6000), part("msg_3"), status("busy"), answer("msg_4", 6001), part("msg_4"))
    assert copies(CREATED, *COPIED, *happens) == [False] + [True] * 5 + [False] * 5


def test_H4_a_copied_message_that_is_run_again_is_activity() -> None:
    # The host renews a message's time when it runs it again.
    assert copies(CREATED, *COPIED, status("busy"), user("msg_1", 7000)) == [False] + [True] * 5 + [False] * 2


def test_H4_a_session_that_was_not_seen_to_begin_holds_no_copies() -> None:
    assert copies(*COPIED) == [False] * 5


def test_H4_a_clock_that_was_set_back_hides_a_session_only_until_it_is_busy() -> None:
    told = copies(CREATED, user("msg_1", 3128), status("busy"), answer("msg_2", 3200), part("msg_2"))
    assert told == [False, True, False, False, False]


def test_H4_many_new_sessions_are_not_all_remembered() -> None:
    history = CopiedHistory()
    for number in range(1000):
        session = f"ses_{number}"
        info = {"id": session, "time": {"created": 5000}}
        history.is_copy(
            read_event({"type": "session.created", "properties": {"sessionID": session, "info": info}})
        )
    assert len(history._new) == 256
