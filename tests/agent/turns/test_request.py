"""Whatever was stored, the request built from it is one that a strict provider takes."""

import copy
import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fallback_plugin.agent.turns.messages import ABORTED
from fallback_plugin.agent.turns.request import GO_ON, INTERRUPTED, request_messages

API_ERROR = {"name": "APIError", "data": {"message": "Slow down."}}


def user(*parts: dict[str, Any] | str) -> dict[str, Any]:
    told = [{"type": "text", "text": part} if isinstance(part, str) else part for part in parts]
    return {"info": {"role": "user"}, "parts": told}


def answer(*parts: dict[str, Any] | str, **info: Any) -> dict[str, Any]:
    told = [{"type": "text", "text": part} if isinstance(part, str) else part for part in parts]
    return {"info": {"role": "assistant", **info}, "parts": told}


def tool(call_id: str = "call_1", status: str = "completed", **state: Any) -> dict[str, Any]:
    return {"type": "tool", "tool": "read", "callID": call_id, "state": {"status": status, **state}}


def built(*history: dict[str, Any], images: bool = False) -> list[dict[str, Any]]:
    return request_messages(history, system="You are.", images=images)[1:]


def test_a_conversation_is_told_in_its_order() -> None:
    assert built(user("hi"), answer("hello"), user("more")) == [
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": "hello"},
        {"role": "user", "content": "more"},
    ]


def test_the_system_message_goes_first() -> None:
    assert request_messages([user("hi")], system="You are.", images=False)[0] == {
        "role": "system",
        "content": "You are.",
    }


def test_a_tools_result_follows_its_call() -> None:
    part = tool(input={"path": "a"}, output="content")

    assert built(user("hi"), answer("I look.", part)) == [
        {"role": "user", "content": "hi"},
        {
            "role": "assistant",
            "content": "I look.",
            "tool_calls": [
                {
                    "id": "call_1",
                    "type": "function",
                    "function": {"name": "read", "arguments": '{"path": "a"}'},
                }
            ],
        },
        {"role": "tool", "tool_call_id": "call_1", "content": "content"},
    ]


def test_report_S22_two_messages_in_a_row_become_one() -> None:
    assert built(user("hi"), user("are you there?")) == [{"role": "user", "content": "hi\n\nare you there?"}]


@pytest.mark.parametrize("status", ["pending", "running", "error", "something else"])
def test_report_E2_a_call_without_a_result_gets_one(status: str) -> None:
    messages = built(user("hi"), answer(tool(status=status)), user("go on"))

    assert messages[2] == {"role": "tool", "tool_call_id": "call_1", "content": INTERRUPTED}


def test_report_S27_a_turn_stopped_before_its_tools_result_is_no_hindrance() -> None:
    stopped = answer("I look.", tool(status="error", error="Tool execution aborted"), error=ABORTED)

    messages = built(user("hi"), stopped, user("go on"))

    assert [message["role"] for message in messages] == ["user", "assistant", "tool", "user"]


def test_the_mark_of_a_stop_is_not_told() -> None:
    assert built(user("hi"), answer(error=ABORTED), user("again")) == [
        {"role": "user", "content": "hi\n\nagain"}
    ]


def test_what_was_said_before_a_stop_is_told() -> None:
    assert built(user("hi"), answer("half", error=ABORTED), user("again"))[1]["content"] == "half"


def test_a_failed_attempt_is_left_out_but_for_the_tools_that_ran() -> None:
    failed = answer("half", tool(output="x"), tool("call_2", "pending"), error=API_ERROR)

    said = built(user("hi"), answer("half", error=API_ERROR), failed)

    assert [message["role"] for message in said] == ["user", "assistant", "tool"]
    assert said[1]["content"] is None


def test_thinking_is_left_out() -> None:
    thought = {"type": "reasoning", "text": "hm"}
    assert built(user("hi"), answer(thought, "yes"), user("more"))[1]["content"] == "yes"


def test_an_answer_in_the_end_is_followed_by_a_word() -> None:
    assert built(user("hi"), answer("hello"))[-1] == {"role": "user", "content": GO_ON}


def test_the_summary_stands_for_everything_before_it() -> None:
    summary = answer("We did much.", summary=True, finish="stop")

    messages = built(user("old"), answer("older"), summary, user("go on"))

    assert len(messages) == 1
    assert "We did much." in messages[0]["content"]
    assert messages[0]["content"].endswith("go on")
    assert "old" not in messages[0]["content"].replace("hold", "")


def test_a_summary_that_failed_stands_for_nothing() -> None:
    summary = answer(summary=True, error=API_ERROR)
    assert built(user("old"), summary, user("go on"))[0]["content"].startswith("old")


def test_an_image_goes_to_a_model_that_takes_images() -> None:
    part = {"type": "file", "mime": "image/png", "filename": "a.png", "url": "data:image/png;base64,AAAA"}

    (seen,) = built(user("look", part), images=True)
    (told,) = built(user("look", part))

    assert seen["content"][1] == {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
    assert "a.png" in told["content"]
    assert "cannot see it" in told["content"]


def test_a_file_of_the_project_is_told_by_its_place() -> None:
    part = {"type": "file", "mime": "text/plain", "filename": "a b.py", "url": "file:///project/a%20b.py"}
    assert built(user(part))[0]["content"] == "[a b.py is at /project/a b.py]"


@pytest.mark.parametrize("url", ["data:text/plain;base64,aGVsbG8=", "data:text/plain,hello"])
def test_a_text_file_is_told(url: str) -> None:
    part = {"type": "file", "mime": "text/plain", "filename": "a.txt", "url": url}
    assert built(user("look", part))[0]["content"] == "look\n\na.txt:\nhello"


def test_ids_that_come_again_are_told_apart() -> None:
    messages = built(user("hi"), answer(tool(output="1")), answer(tool(output="2")))

    assert [m["tool_call_id"] for m in messages if m["role"] == "tool"] == ["call_1", "call_1_2"]


TEXTS = st.text(min_size=1, max_size=8).filter(str.strip)
TOOLS = st.builds(
    lambda call_id, status, state: {
        "type": "tool",
        "tool": "read",
        "id": "prt",
        "callID": call_id,
        "state": {"status": status, **state},
    },
    st.sampled_from(["call_1", "call_2", "call_1_2"]),
    st.sampled_from(["pending", "running", "completed", "error"]),
    st.sampled_from([{}, {"output": "out"}, {"error": "no"}, {"input": {"a": 1}}, {"input": None}]),
)
ODD = st.sampled_from(
    [{}, {"type": "step-start"}, {"type": "unknown"}, {"type": "tool"}, {"type": "compaction"}]
)
SAID = TEXTS.map(lambda said: {"type": "text", "text": said})
THOUGHT = TEXTS.map(lambda said: {"type": "reasoning", "text": said})
PERSONS = st.builds(
    lambda parts: {"info": {"role": "user"}, "parts": parts}, st.lists(SAID | ODD, max_size=3)
)
ANSWERS = st.builds(
    lambda parts, error: {
        "info": {"role": "assistant", **({"error": error} if error else {})},
        "parts": parts,
    },
    st.lists(SAID | THOUGHT | TOOLS | ODD, max_size=4),
    st.sampled_from([None, ABORTED, API_ERROR]),
)
HISTORIES = st.lists(
    PERSONS | ANSWERS | st.sampled_from([{}, {"info": {"role": "odd"}, "parts": None}]), max_size=8
)


@given(HISTORIES, st.sampled_from([False, True]))
def test_any_history_becomes_a_request_that_a_strict_provider_takes(
    history: list[dict[str, Any]],
    images: bool,  # noqa: FBT001 -- drawn by the property
) -> None:
    before = copy.deepcopy(history)

    system, *messages = request_messages(history, system="You are.", images=images)

    assert history == before
    assert system["role"] == "system"
    assert messages[-1]["role"] in ("user", "tool")
    waiting: list[str] = []
    answered: list[str] = []
    for message in messages:
        if message["role"] == "tool":
            answered.append(waiting.pop(0))
            assert message["tool_call_id"] == answered[-1]
        else:
            assert waiting == []
            calls = message.get("tool_calls", [])
            waiting = [call["id"] for call in calls]
            assert all(isinstance(json.loads(call["function"]["arguments"]), dict) for call in calls)
    assert waiting == []
    assert len(answered) == len(set(answered))


@given(HISTORIES)
def test_every_word_of_a_person_is_told_and_no_mark_of_a_stop(history: list[dict[str, Any]]) -> None:
    told = "\n".join(
        str(message["content"]) for message in request_messages(history, system="You.", images=False)
    )

    persons = [each for each in history if each.get("info", {}).get("role") == "user"]
    assert all(
        part["text"] in told for each in persons for part in each["parts"] if part.get("type") == "text"
    )
    assert "Aborted" not in told


@given(HISTORIES)
def test_two_messages_of_a_person_are_never_in_a_row(history: list[dict[str, Any]]) -> None:
    roles = [message["role"] for message in request_messages(history, system="You are.", images=False)]

    assert not {("user", "user"), ("assistant", "assistant")} & set(pairwise(roles))
