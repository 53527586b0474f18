"""What counts as an answer."""

import pytest

from fallback_plugin.hookspecs import ToolResult
from fallback_plugin.model_ref import ModelRef
from fallback_plugin.plugins.answers import _EXPECTED, wrong_answer
from fallback_plugin.plugins.registry import Registry


def test_every_first_result_hook_has_its_kind_of_answer() -> None:
    assert set(_EXPECTED) == Registry().first_result


@pytest.mark.parametrize(
    ("hook", "answer"),
    [
        ("chat_message", ModelRef("p", "m")),
        ("confirm_prompt", "stop"),
        ("background_model", ModelRef("p", "m")),
        ("model_attempt_failed", ModelRef("p", "m")),
        ("messages_transform", ()),
        ("messages_transform", [{"info": {}}]),
        ("tool_before", {}),
        ("tool_after", ToolResult(title="", output="")),
        ("permission_ask", "deny"),
    ],
)
def test_a_right_answer_is_taken(hook: str, answer: object) -> None:
    assert wrong_answer(hook, answer) is None


@pytest.mark.parametrize(
    ("hook", "answer"),
    [
        ("chat_message", "p/m"),
        ("messages_transform", "text"),
        ("messages_transform", [1]),
        ("tool_before", [("a", 1)]),
        ("tool_after", "output"),
        ("permission_ask", "maybe"),
        ("permission_ask", ["deny"]),
    ],
)
def test_a_wrong_answer_is_explained_without_being_quoted(hook: str, answer: object) -> None:
    error = wrong_answer(hook, answer)

    assert f"it answered with {type(answer).__name__} where" in str(error)
