"""What a failure closes, and what else a model is closed by."""

import pytest

from fallback_plugin.health.scope import Scope, closing_key, keys_of
from fallback_plugin.model_ref import ModelRef

CLAUDE = ModelRef("openrouter", "anthropic/claude-opus-4-5")


@pytest.mark.parametrize(
    ("scope", "other", "is_closed"),
    [
        ("model", CLAUDE, True),
        ("model", ModelRef("openrouter", "anthropic/claude-opus-4-5", "high"), False),
        ("model", ModelRef("openrouter", "anthropic/claude-haiku-4-5"), False),
        ("model", ModelRef("anthropic", "anthropic/claude-opus-4-5"), False),
        ("upstream", ModelRef("openrouter", "anthropic/claude-opus-4-5", "high"), True),
        ("upstream", ModelRef("openrouter", "anthropic/claude-haiku-4-5"), True),
        ("upstream", ModelRef("openrouter", "anthropic"), False),
        ("upstream", ModelRef("openrouter", "openai/gpt-5.1"), False),
        ("upstream", ModelRef("other", "anthropic/claude-opus-4-5"), False),
        ("account", ModelRef("openrouter", "openai/gpt-5.1", "low"), True),
        ("account", ModelRef("openai", "gpt-5.1"), False),
        ("provider", ModelRef("openrouter", "openai/gpt-5.1"), True),
        ("provider", ModelRef("openrouter/anthropic", "claude-opus-4-5"), False),
    ],
)
def test_a_failure_closes_what_shares_its_scope(scope: Scope, other: ModelRef, *, is_closed: bool) -> None:
    assert (closing_key(CLAUDE, scope) in keys_of(other)) is is_closed


def test_a_model_without_a_vendor_is_its_own_upstream_with_all_variants() -> None:
    key = closing_key(ModelRef("openai", "gpt-5.1"), "upstream")

    assert key in keys_of(ModelRef("openai", "gpt-5.1", "high"))
    assert key not in keys_of(ModelRef("openai", "gpt-5.1-mini"))
