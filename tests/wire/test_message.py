"""Messages, parts and models as OpenCode 1.18.33 stores them."""

from types import MappingProxyType
from typing import Any, Final

import pytest

from fallback_plugin.errors import WireError
from fallback_plugin.events import AssistantMessage, HostError, UserMessage
from fallback_plugin.model_ref import ModelRef
from fallback_plugin.wire.message import read_history, read_message, read_model, read_part, write_model

USER: Final[dict[str, Any]] = {
    "id": "msg_1",
    "sessionID": "ses_1",
    "role": "user",
    "time": {"created": 1_795_000_000_250},
    "agent": "build",
    "model": {"providerID": "openai", "modelID": "gpt", "variant": "high"},
    "system": "Answer in French.",
    "tools": {"bash": False},
    "format": {"type": "json_schema", "schema": {}},
    "summary": {"diffs": []},
}
ANSWER: Final[dict[str, Any]] = {
    "id": "msg_2",
    "sessionID": "ses_1",
    "role": "assistant",
    "parentID": "msg_1",
    "time": {"created": 1_795_000_001_000, "completed": 1_795_000_002_000},
    "agent": "build",
    "mode": "build",
    "providerID": "openai",
    "modelID": "gpt",
    "finish": "stop",
    "cost": 0,
    "tokens": {"input": 1, "output": 1, "reasoning": 0, "cache": {"read": 0, "write": 0}},
}
PART: Final[dict[str, Any]] = {
    "id": "prt_1",
    "messageID": "msg_1",
    "sessionID": "ses_1",
    "type": "text",
    "text": "Hello",
}


def without(source: dict[str, Any], key: str) -> dict[str, Any]:
    return {name: value for name, value in source.items() if name != key}


def answer(**changes: object) -> AssistantMessage:
    found = read_message({**ANSWER, **changes})
    assert isinstance(found, AssistantMessage)
    return found


def test_a_users_message_is_read_with_all_that_a_replay_carries_over() -> None:
    assert read_message(USER) == UserMessage(
        id="msg_1",
        session_id="ses_1",
        model=ModelRef("openai", "gpt", "high"),
        created_at=1_795_000_000.25,
        agent="build",
        system="Answer in French.",
        tools={"bash": False},
        format={"type": "json_schema", "schema": {}},
    )


def test_a_users_message_may_carry_nothing_over() -> None:
    plain = {key: USER[key] for key in ("id", "sessionID", "role", "time", "model")}

    found = read_message(plain)

    assert isinstance(found, UserMessage)
    assert (found.agent, found.system, found.tools, found.format) == (None, None, None, None)


def test_an_answer_is_read() -> None:
    assert read_message(ANSWER) == AssistantMessage(
        id="msg_2",
        session_id="ses_1",
        parent_id="msg_1",
        model=ModelRef("openai", "gpt"),
        created_at=1_795_000_001.0,
        agent="build",
        finish="stop",
        completed=True,
        tokens=2,
    )


@pytest.mark.parametrize(
    ("tokens", "held"),
    [
        ({"input": 7, "output": 5, "reasoning": 3, "cache": {"read": 100, "write": 10}}, 122),
        ({"input": -7, "output": "5", "cache": None}, 0),
        ({}, 0),
        (None, 0),
    ],
)
def test_an_answer_says_what_its_context_holds(tokens: object, held: int) -> None:
    assert answer(tokens=tokens).tokens == held


def test_an_answer_without_an_end_is_not_completed() -> None:
    assert not answer(time={"created": 1}).completed


def test_an_answer_may_name_its_agent_in_the_older_field() -> None:
    assert answer(agent=None).agent == "build"


def test_an_answer_carries_its_error() -> None:
    error = {"name": "MessageAbortedError", "data": {"message": "Aborted"}}

    assert answer(error=error).error == HostError(name="MessageAbortedError", message="Aborted")


@pytest.mark.parametrize("message", [USER, ANSWER], ids=["user", "assistant"])
@pytest.mark.parametrize("field", ["id", "sessionID", "role"])
def test_a_message_without_its_identity_is_refused(message: dict[str, Any], field: str) -> None:
    with pytest.raises(WireError, match=field):
        read_message(without(message, field))


@pytest.mark.parametrize(
    ("message", "field"), [(USER, "model"), (ANSWER, "providerID"), (without(ANSWER, "id"), "id")]
)
def test_a_message_without_a_model_is_refused(message: dict[str, Any], field: str) -> None:
    with pytest.raises(WireError, match=field):
        read_message(without(message, field))


def test_a_role_this_package_does_not_know_is_refused() -> None:
    with pytest.raises(WireError, match="narrator"):
        read_message({**USER, "role": "narrator"})


@pytest.mark.parametrize("time", [None, {}, {"created": "now"}, {"created": True}])
def test_a_time_that_is_missing_or_odd_is_the_beginning_of_time(time: object) -> None:
    assert read_message({**USER, "time": time}).created_at == 0.0


def test_a_model_is_read_as_messages_spell_it() -> None:
    assert read_model({"providerID": "openai", "modelID": "gpt"}) == ModelRef("openai", "gpt")


def test_a_model_is_read_as_sessions_spell_it() -> None:
    assert read_model({"providerID": "openai", "id": "gpt", "variant": "low"}) == ModelRef(
        "openai", "gpt", "low"
    )


@pytest.mark.parametrize("variant", ["default", "", None])
def test_the_hosts_word_for_no_variant_is_none(variant: str | None) -> None:
    assert read_model({"providerID": "openai", "modelID": "gpt", "variant": variant}).variant is None


@pytest.mark.parametrize(
    "source", [{}, {"providerID": "openai"}, {"modelID": "gpt"}, {"providerID": 7, "id": "x"}]
)
def test_half_a_model_is_refused(source: dict[str, object]) -> None:
    with pytest.raises(WireError):
        read_model(source)


def test_a_model_is_written_without_its_variant() -> None:
    assert write_model(ModelRef("openai", "gpt", "high")) == {"providerID": "openai", "modelID": "gpt"}


def test_a_model_with_slashes_in_its_name_survives_a_round_trip() -> None:
    model = ModelRef("openrouter", "meta/llama:free")

    assert read_model(write_model(model)) == model


def test_a_part_is_read_and_keeps_the_hosts_own_object() -> None:
    part = read_part(PART)

    assert (part.id, part.message_id, part.session_id, part.type, part.text) == (
        "prt_1",
        "msg_1",
        "ses_1",
        "text",
        "Hello",
    )
    assert part.raw is PART


@pytest.mark.parametrize(("value", "expected"), [(True, True), (False, False), ("yes", False), (None, False)])
def test_a_part_is_synthetic_only_if_the_host_says_so(*, value: object, expected: bool) -> None:
    assert read_part({**PART, "synthetic": value}).synthetic is expected


@pytest.mark.parametrize("status", ["pending", "running", "completed", "error"])
def test_a_tool_part_tells_how_far_its_tool_is(status: str) -> None:
    part = read_part({**without(PART, "text"), "type": "tool", "tool": "bash", "state": {"status": status}})

    assert (part.tool, part.tool_status) == ("bash", status)


@pytest.mark.parametrize("state", [None, {}, {"status": "asleep"}, {"status": 7}, "running"])
def test_a_state_this_package_does_not_know_is_left_out(state: object) -> None:
    assert read_part({**PART, "type": "tool", "state": state}).tool_status is None


def test_a_part_of_an_unknown_type_is_read() -> None:
    assert read_part({**without(PART, "text"), "type": "hologram"}).type == "hologram"


@pytest.mark.parametrize("field", ["id", "messageID", "sessionID", "type"])
def test_a_part_without_its_identity_is_refused(field: str) -> None:
    with pytest.raises(WireError, match=field):
        read_part(without(PART, field))


def test_a_history_is_read_in_its_order() -> None:
    history = read_history([{"info": USER, "parts": [PART]}, {"info": ANSWER, "parts": []}])

    assert [(entry.info.id, len(entry.parts)) for entry in history] == [("msg_1", 1), ("msg_2", 0)]


@pytest.mark.parametrize("parts", [{}, {"parts": None}])
def test_a_history_may_leave_out_parts(parts: dict[str, object]) -> None:
    (entry,) = read_history([{"info": USER, **parts}])

    assert entry.parts == ()


@pytest.mark.parametrize(
    "odd",
    [
        None,
        7,
        "text",
        [],
        {},
        {"info": None},
        {"info": {"role": "narrator"}},
        {"info": USER, "parts": [7]},
        {"info": USER, "parts": [{}]},
        {"info": USER, "parts": 7},
    ],
)
def test_an_entry_of_a_history_that_makes_no_sense_is_left_out(odd: object) -> None:
    history = read_history([odd, {"info": ANSWER}])

    assert [entry.info.id for entry in history] == ["msg_2"]


@pytest.mark.parametrize("answer", [None, {}, "oops", 7])
def test_an_answer_that_is_no_list_is_an_empty_history(answer: object) -> None:
    assert read_history(answer) == []


def test_a_read_only_object_is_read_like_any_other() -> None:
    assert read_message(MappingProxyType(USER)) == read_message(USER)
