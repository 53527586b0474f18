"""Reading request bodies."""

from typing import Any

import pytest

from fallback_plugin.agent.http.bodies import session_model, user_prompt
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


@pytest.mark.parametrize("key", ["", "k" * 201])
def test_a_key_of_no_use_is_refused(key: str) -> None:
    with pytest.raises(BadRequestError, match="Idempotency-Key"):
        user_prompt({"parts": []}, idempotency_key=key)


def test_a_new_session_spells_its_models_key_otherwise() -> None:
    body = {"model": {"id": "m", "providerID": "p", "variant": "high"}}

    assert session_model(body) == ModelRef("p", "m", "high")
    assert session_model({}) is None
