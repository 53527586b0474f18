"""Reading request bodies."""

from typing import Any

import pytest

from fallback_plugin.agent.http.bodies import (
    agent_name,
    check_not_archived,
    check_permission_rules,
    session_model,
    user_prompt,
)
from fallback_plugin.agent.http.refusals import BadRequestError
from fallback_plugin.agent.records import UserPrompt
from fallback_plugin.model_ref import ModelRef

TEXT = {"type": "text", "text": "Hello"}


def test_the_least_prompt() -> None:
    assert user_prompt({"parts": [TEXT]}) == UserPrompt(parts=(TEXT,))


def test_everything_a_prompt_can_say() -> None:
    body = {
        "parts": [TEXT, {"type": "file", "url": "data:,x", "mime": "text/plain"}],
        "messageID": "msg_1",
        "model": {"providerID": "p", "modelID": "m"},
        "variant": "high",
        "agent": "build",
        "system": "Be brief.",
        "tools": {"bash": False},
        "format": {"type": "text"},
        "noReply": True,
        "delivery": "steer",
        "something": "of a later release",
    }

    assert user_prompt(body) == UserPrompt(
        parts=tuple(body["parts"]),  # type: ignore[arg-type]
        message_id="msg_1",
        model=ModelRef("p", "m", "high"),
        agent="build",
        system="Be brief.",
        tools={"bash": False},
        format={"type": "text"},
        no_reply=True,
        delivery="steer",
        client_key="msg_1",
    )


def test_a_key_of_the_request_goes_before_the_messages_id() -> None:
    prompt = user_prompt({"parts": [TEXT], "messageID": "msg_1"}, idempotency_key="k")

    assert prompt.client_key == "k"


def test_to_answer_a_stored_message_again_is_no_repetition() -> None:
    assert user_prompt({"parts": [], "messageID": "msg_1"}).client_key is None


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({}, 'Missing key\n  at ["parts"]'),
        ({"parts": None}, 'Expected array, got null\n  at ["parts"]'),
        ({"parts": {}}, 'Expected array, got {}\n  at ["parts"]'),
        ({"parts": [1]}, 'at ["parts"][0]'),
        ({"parts": [TEXT, {"type": "video"}]}, 'at ["parts"][1]'),
        ({"parts": [{"type": "text"}]}, 'Missing key\n  at ["parts"][0]["text"]'),
        ({"parts": [{"type": "file", "url": "x"}]}, 'Missing key\n  at ["parts"][0]["mime"]'),
        ({"parts": [], "messageID": "x"}, 'starting with "msg"'),
        ({"parts": [], "messageID": "msg" * 100}, 'at ["messageID"]'),
        ({"parts": [], "model": {"modelID": "m"}}, 'Missing key\n  at ["model"]["providerID"]'),
        ({"parts": [], "model": {"providerID": "p", "modelID": 1}}, 'at ["model"]["modelID"]'),
        ({"parts": [], "noReply": 1}, 'Expected boolean, got 1\n  at ["noReply"]'),
        ({"parts": [], "tools": {"bash": "no"}}, 'at ["tools"]'),
        ({"parts": [], "delivery": "now"}, 'at ["delivery"]'),
    ],
)
def test_what_is_wrong_is_said_and_where(body: dict[str, Any], words: str) -> None:
    with pytest.raises(BadRequestError) as refused:
        user_prompt(body)

    assert words in str(refused.value)
    assert refused.value.status == 400


@pytest.mark.parametrize(
    "parts",
    [
        [{"type": "text", "text": ""}],
        [{"type": "text", "text": " \n\t\u00a0"}, {"type": "text", "text": ""}],
        [{"type": "agent", "name": "build"}],
        [{"type": "subtask", "prompt": "Look.", "description": "look", "agent": "build"}],
        [{"type": "agent", "name": "build"}, {"type": "text", "text": " "}],
    ],
)
@pytest.mark.parametrize("more", [{}, {"messageID": "msg_1"}, {"noReply": True}])
def test_H12_a_prompt_that_says_nothing_is_refused(parts: list[Any], more: dict[str, Any]) -> None:
    with pytest.raises(BadRequestError, match=r"The prompt is empty: give it words or a file"):
        user_prompt({"parts": parts, **more})


@pytest.mark.parametrize(
    "part", [TEXT, {"type": "file", "url": "data:,x", "mime": "text/plain"}, {**TEXT, "synthetic": True}]
)
def test_H12_a_prompt_that_says_something_among_empty_parts_is_taken(part: dict[str, Any]) -> None:
    parts = [{"type": "text", "text": ""}, part, {"type": "agent", "name": "build"}]
    assert user_prompt({"parts": parts}).parts == tuple(parts)


@pytest.mark.parametrize("form", [{"type": "json_schema", "schema": {}}, {"type": None}, {}])
def test_H12_a_format_that_would_be_passed_over_is_refused(form: dict[str, Any]) -> None:
    with pytest.raises(BadRequestError, match=r"is not supported, only text") as refused:
        user_prompt({"parts": [TEXT], "format": form})
    assert 'at ["format"]["type"]' in str(refused.value)


RUN_RULES = [
    {"permission": name, "action": "deny", "pattern": "*"} for name in ("question", "plan_enter", "plan_exit")
]
"""What ``opencode run`` of OpenCode 1.18.33 begins its sessions with."""


@pytest.mark.parametrize("rules", [None, [], RUN_RULES])
def test_H12_rules_that_change_nothing_are_taken(rules: list[Any] | None) -> None:
    check_permission_rules({"permission": rules})


@pytest.mark.parametrize(
    "rule",
    [
        {"permission": "bash", "action": "allow", "pattern": "*"},
        {"permission": "bash", "action": "deny", "pattern": "rm *"},
        {"permission": "*", "action": "deny", "pattern": "*"},
        {"permission": "ba?h", "action": "deny", "pattern": "*"},
        {"permission": "webfetch", "action": "allow", "pattern": "*"},
        {"permission": 1, "action": "deny"},
        "bash",
    ],
)
def test_H12_rules_that_would_be_passed_over_are_refused(rule: Any) -> None:
    with pytest.raises(BadRequestError) as refused:
        check_permission_rules({"permission": [*RUN_RULES, rule]})
    assert 'at ["permission"][3]' in str(refused.value)


def test_H12_a_session_is_not_archived_in_silence() -> None:
    with pytest.raises(BadRequestError, match="cannot be archived"):
        check_not_archived({"time": {"archived": 1}})
    unarchived: list[dict[str, Any]] = [{}, {"time": {}}, {"time": {"archived": None}}]
    for body in unarchived:
        check_not_archived(body)


def test_H12_an_agent_that_there_is_not_is_refused_with_those_that_there_are() -> None:
    assert agent_name({"agent": "plan"}, ["build", "plan"]) == "plan"
    assert agent_name({}, ["build"]) is None
    with pytest.raises(BadRequestError, match=r'Agent not found: "nobody". Available agents: build, plan'):
        agent_name({"agent": "nobody"}, ["build", "plan"])


@pytest.mark.parametrize("key", ["", "k" * 201])
def test_a_key_of_no_use_is_refused(key: str) -> None:
    with pytest.raises(BadRequestError, match="Idempotency-Key"):
        user_prompt({"parts": []}, idempotency_key=key)


def test_a_new_session_spells_its_models_key_otherwise() -> None:
    body = {"model": {"id": "m", "providerID": "p", "variant": "high"}}

    assert session_model(body) == ModelRef("p", "m", "high")
    assert session_model({}) is None
