"""What a first-result hook may be answered with."""

from collections.abc import Callable, Mapping, Sequence
from typing import Final, get_args

from fallback_plugin.hookspecs import Confirmation, LastWords, OpenMemory, ToolResult, Verdict
from fallback_plugin.model_ref import ModelRef

_VERDICTS: Final = frozenset(get_args(Verdict))
_CONFIRMATIONS: Final = frozenset(get_args(Confirmation))


def _is_history(answer: object) -> bool:
    return (
        isinstance(answer, Sequence)
        and not isinstance(answer, str | bytes)
        and all(isinstance(message, Mapping) for message in answer)
    )


_EXPECTED: Final[Mapping[str, tuple[str, Callable[[object], bool]]]] = {
    "background_model": ("a ModelRef", lambda answer: isinstance(answer, ModelRef)),
    "chat_message": ("a ModelRef", lambda answer: isinstance(answer, ModelRef)),
    "confirm_prompt": (
        "'go' or 'stop'",
        lambda answer: isinstance(answer, str) and answer in _CONFIRMATIONS,
    ),
    "model_attempt_failed": (
        'a ModelRef or "final"',
        lambda answer: isinstance(answer, ModelRef) or answer == "final",
    ),
    "run_ending": ("LastWords", lambda answer: isinstance(answer, LastWords)),
    "messages_transform": ("a sequence of messages", _is_history),
    "tool_before": ("a mapping of arguments", lambda answer: isinstance(answer, Mapping)),
    "tool_after": ("a ToolResult", lambda answer: isinstance(answer, ToolResult)),
    "permission_ask": (
        "'allow', 'ask' or 'deny'",
        lambda answer: isinstance(answer, str) and answer in _VERDICTS,
    ),
    "open_session_memory": (
        "an object with owner_key, commit and close",
        lambda answer: isinstance(answer, OpenMemory) and isinstance(answer.owner_key, str),
    ),
}


def wrong_answer(hook: str, answer: object) -> TypeError | None:
    """Return what is wrong with a plugin's answer to a question; None if a host can use it."""
    expected, is_right = _EXPECTED[hook]
    if is_right(answer):
        return None
    return TypeError(f"it answered with {type(answer).__name__} where {expected} or None is due")
