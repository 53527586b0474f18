"""The body of ``prompt_async``, held against what OpenCode 1.18.33 takes."""

from typing import Final

import pytest

from fallback_plugin.model_ref import ModelRef
from fallback_plugin.wire.prompt import Prompt, write_prompt

ACCEPTED: Final = frozenset(
    {"messageID", "model", "agent", "noReply", "tools", "format", "system", "variant", "parts"}
)
"""The host refuses any other key."""

MODEL: Final = ModelRef("openai", "gpt")
FULL: Final = Prompt(
    model=ModelRef("openai", "gpt", "high"),
    message_id="msg_1",
    parts=({"type": "text", "text": "Hello"},),
    agent="build",
    system="Answer in French.",
    tools={"bash": False},
    format={"type": "json_schema", "schema": {}},
)


def test_a_full_prompt_is_written_the_hosts_way() -> None:
    assert write_prompt(FULL) == {
        "messageID": "msg_1",
        "model": {"providerID": "openai", "modelID": "gpt"},
        "variant": "high",
        "parts": [{"type": "text", "text": "Hello"}],
        "agent": "build",
        "system": "Answer in French.",
        "tools": {"bash": False},
        "format": {"type": "json_schema", "schema": {}},
    }


def test_only_keys_that_the_host_accepts_are_written() -> None:
    assert write_prompt(FULL).keys() <= ACCEPTED


def test_what_is_not_known_is_left_out() -> None:
    assert write_prompt(Prompt(model=MODEL)).keys() == {"parts", "model"}


def test_parts_are_written_even_if_there_are_none() -> None:
    assert write_prompt(Prompt(model=MODEL, message_id="msg_1"))["parts"] == []


def test_the_variant_travels_beside_the_model() -> None:
    body = write_prompt(FULL)

    assert (body["variant"], body["model"].keys()) == ("high", {"providerID", "modelID"})


@pytest.mark.parametrize("field", ["tools", "format"])
def test_an_empty_object_is_not_the_same_as_none(field: str) -> None:
    prompt = Prompt(model=MODEL, tools={}, format={})

    assert write_prompt(prompt)[field] == {}


def test_a_body_shares_nothing_with_the_prompt() -> None:
    body = write_prompt(FULL)

    body["parts"][0]["text"] = "Goodbye"
    body["tools"]["bash"] = True

    assert (FULL.parts[0]["text"], FULL.tools) == ("Hello", {"bash": False})
