from typing import Any

import pytest

from fallback_plugin.errors import WireError
from fallback_plugin.events import HostError
from fallback_plugin.hookspecs import (
    LastWords,
    ModelAttempt,
    PromptRequest,
    ToolCall,
    ToolResult,
)
from fallback_plugin.model_ref import ModelRef
from fallback_plugin.opencode.bridge_questions import QUESTIONS, questions_for, session_of

TOOL = {"sessionID": "ses_1", "callID": "call_1", "tool": "read", "args": {"path": "a"}}


ATTEMPT = ModelAttempt(
    session_id="ses_1",
    message_id="msg_1",
    agent="build",
    host_model=ModelRef("p", "m"),
    model=ModelRef("q", "n"),
    tried=(ModelRef("p", "m"), ModelRef("q", "n")),
    error=HostError(name="", status_code=429, response_body="{}", response_headers={"retry-after": "3"}),
    reachable=frozenset({ModelRef("p", "m"), ModelRef("q", "n")}),
)


@pytest.mark.parametrize(
    ("name", "params", "arguments"),
    [
        (
            "chat.message",
            {
                "sessionID": "ses_1",
                "messageID": "msg_1",
                "agent": "build",
                "model": {"providerID": "p", "modelID": "m"},
                "variant": "high",
            },
            {
                "request": PromptRequest(
                    session_id="ses_1", message_id="msg_1", agent="build", model=ModelRef("p", "m", "high")
                )
            },
        ),
        ("chat.message", {"sessionID": "ses_1"}, {"request": PromptRequest(session_id="ses_1")}),
        (
            "chat.message",
            {"sessionID": "ses_1", "resolved": {"providerID": "p", "modelID": "m"}},
            {"request": PromptRequest(session_id="ses_1", resolved=ModelRef("p", "m"))},
        ),
        ("experimental.chat.messages.transform", {"messages": [{"info": {}}]}, {"messages": [{"info": {}}]}),
        ("experimental.chat.messages.transform", {}, {"messages": []}),
        (
            "tool.execute.before",
            TOOL,
            {"call": ToolCall(session_id="ses_1", call_id="call_1", tool="read", args={"path": "a"})},
        ),
        (
            "tool.execute.after",
            {**TOOL, "title": "t", "output": "o", "metadata": {"n": 1}},
            {
                "call": ToolCall(session_id="ses_1", call_id="call_1", tool="read", args={"path": "a"}),
                "result": ToolResult(title="t", output="o", metadata={"n": 1}),
            },
        ),
        ("prompt.begins", {"sessionID": "ses_1", "messageID": "msg_1"}, {"message_id": "msg_1"}),
        ("run.ending", {"sessionID": "ses_1"}, {}),
        (
            "model.request",
            {
                "sessionID": "ses_1",
                "messageID": "msg_1",
                "agent": "build",
                "model": {"providerID": "p", "modelID": "m"},
                "tried": [{"providerID": "p", "modelID": "m"}, {"providerID": "q", "modelID": "n"}],
                "failure": {
                    "ending": "refused",
                    "status": 429,
                    "headers": {"Retry-After": "3"},
                    "body": "{}",
                },
                "reachable": {"p": ["m", 7], "q": ["n"], "r": "all"},
            },
            {"attempt": ATTEMPT},
        ),
    ],
)
def test_a_question_becomes_the_arguments_of_its_hook(
    name: str, params: dict[str, Any], arguments: dict[str, Any]
) -> None:
    assert QUESTIONS[name].read(params) == arguments


@pytest.mark.parametrize(
    ("name", "answer", "result"),
    [
        ("chat.message", ModelRef("p", "m"), {"model": {"providerID": "p", "modelID": "m"}}),
        (
            "chat.message",
            ModelRef("p", "m", "low"),
            {"model": {"providerID": "p", "modelID": "m"}, "variant": "low"},
        ),
        ("experimental.chat.messages.transform", ({"info": {}},), {"messages": [{"info": {}}]}),
        ("tool.execute.before", {"path": "b"}, {"args": {"path": "b"}}),
        (
            "tool.execute.after",
            ToolResult(title="t", output="o"),
            {"title": "t", "output": "o", "metadata": {}},
        ),
        ("model.request", ModelRef("p", "m"), {"model": {"providerID": "p", "modelID": "m"}}),
        ("model.request", "final", {"final": True}),
        ("model.background", ModelRef("p", "m"), {"model": {"providerID": "p", "modelID": "m"}}),
        ("prompt.begins", "stop", {"stop": True}),
        ("prompt.begins", "go", {"stop": False}),
        (
            "run.ending",
            LastWords(parts=({"type": "text"},), trouble="no"),
            {"parts": [{"type": "text"}], "trouble": "no"},
        ),
    ],
)
def test_an_answer_becomes_the_result_the_host_understands(
    name: str, answer: object, result: dict[str, Any]
) -> None:
    assert QUESTIONS[name].write(answer) == result


@pytest.mark.parametrize(
    "name",
    [
        "chat.message",
        "model.background",
        "model.request",
        "prompt.begins",
        "run.ending",
        "tool.execute.before",
        "tool.execute.after",
    ],
)
def test_a_question_about_no_session_is_refused(name: str) -> None:
    with pytest.raises(WireError, match="field"):
        QUESTIONS[name].read({})


def test_a_host_is_asked_only_what_some_plugin_answers() -> None:
    assert questions_for(frozenset({"tool_after", "chat_message", "model_attempt_failed"})) == [
        "chat.message",
        "model.request",
        "tool.execute.after",
    ]


def test_a_history_question_belongs_to_the_session_of_its_messages_if_told() -> None:
    assert session_of({"sessionID": "ses_1"}) == "ses_1"
    assert session_of({"messages": []}) is None


def test_an_ending_nobody_knows_counts_as_refused() -> None:
    asked = {"sessionID": "ses_1", "model": {"providerID": "p", "modelID": "m"}}
    attempt = QUESTIONS["model.request"].read({**asked, "failure": {"ending": "exploded"}})["attempt"]
    assert (attempt.ending, attempt.model, attempt.reachable) == ("refused", ModelRef("p", "m"), frozenset())
