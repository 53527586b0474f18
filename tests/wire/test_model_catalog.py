"""The host's list of models, held against what OpenCode 1.18.33 answers."""

from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fallback_plugin.model_ref import ModelRef
from fallback_plugin.wire.model_catalog import (
    EVERYTHING,
    NOTHING_KNOWN,
    ModelCatalog,
    ModelFacts,
    read_catalog,
)

MODEL: Final = {
    "id": "claude-haiku-4-5",
    "providerID": "anthropic",
    "api": {"id": "claude-haiku-4-5", "url": "", "npm": "@ai-sdk/anthropic"},
    "name": "Claude Haiku 4.5 (latest)",
    "capabilities": {
        "temperature": True,
        "attachment": True,
        "toolcall": True,
        "input": {"text": True, "audio": False, "image": True, "video": False, "pdf": True},
        "output": {"text": True, "audio": False, "image": False, "video": False, "pdf": False},
    },
    "cost": {"input": 1, "output": 5, "cache": {"read": 0.1, "write": 1.25}},
    "limit": {"context": 200_000, "output": 64_000},
    "status": "active",
    "options": {"apiKey": "secret"},
    "headers": {"x-key": "secret"},
}
LIST: Final = {
    "providers": [
        {
            "id": "anthropic",
            "source": "env",
            "key": "secret",
            "options": {"apiKey": "secret"},
            "models": {"claude-haiku-4-5": MODEL},
        },
        {"id": "ollama", "models": {}},
    ],
    "default": {"anthropic": "claude-haiku-4-5"},
}
HAIKU: Final = ModelRef("anthropic", "claude-haiku-4-5")

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.sampled_from(["id", "models", "limit", "m"]), inner),
)


def facts_of(**model: Any) -> ModelFacts:
    return read_catalog({"providers": [{"id": "p", "models": {"m": model}}]}).facts(ModelRef("p", "m"))


def test_a_model_is_read() -> None:
    assert read_catalog(LIST).facts(HAIKU) == ModelFacts(
        context_tokens=200_000,
        output_tokens=64_000,
        images=True,
        tools=True,
        input_price=1,
        output_price=5,
    )


def test_no_key_is_kept() -> None:
    assert "secret" not in repr(read_catalog(LIST))


@pytest.mark.parametrize(
    ("model", "facts"),
    {
        "nothing": ({}, NOTHING_KNOWN),
        "zeros": ({"limit": {"context": 0, "output": 0}, "cost": {"input": 0, "output": 0}}, NOTHING_KNOWN),
        "one size": ({"limit": {"output": 4096}}, ModelFacts(output_tokens=4096)),
        "reads less than its context holds": (
            {"limit": {"context": 400_000, "input": 272_000, "output": 128_000}},
            ModelFacts(context_tokens=272_000, output_tokens=128_000),
        ),
        "no": (
            {"capabilities": {"toolcall": False, "input": {"image": False}}},
            ModelFacts(images=False, tools=False),
        ),
        "no capability said": ({"capabilities": {"input": {"text": True}}}, NOTHING_KNOWN),
        "other types": (
            {"limit": "large", "capabilities": {"toolcall": 1, "input": [True]}, "cost": {"input": "free"}},
            NOTHING_KNOWN,
        ),
        "a price in cents": ({"cost": {"input": 0.05}}, ModelFacts(input_price=0.05)),
    }.values(),
)
def test_what_is_not_said_is_none(model: dict[str, Any], facts: ModelFacts) -> None:
    assert facts_of(**model) == facts


@pytest.mark.parametrize(
    ("model", "connected", "listed"),
    [
        (HAIKU, True, True),
        (ModelRef("anthropic", "claude-haiku-4-5", "high"), True, True),
        (ModelRef("anthropic", "claude-2"), True, False),
        (ModelRef("ollama", "qwen3-coder"), True, True),
        (ModelRef("openai", "gpt-5.1"), False, True),
    ],
)
def test_the_list_says_who_may_be_asked(model: ModelRef, *, connected: bool, listed: bool) -> None:
    catalog = read_catalog(LIST)

    assert (catalog.connected(model.provider), catalog.lists(model)) == (connected, listed)


@pytest.mark.parametrize("source", [None, [], "text", {}, {"providers": None}, {"providers": {"id": "p"}}])
def test_a_host_without_a_list_lets_all_be_asked(source: object) -> None:
    assert read_catalog(source) == EVERYTHING
    assert EVERYTHING.connected("any")
    assert EVERYTHING.lists(HAIKU)
    assert EVERYTHING.facts(HAIKU) == NOTHING_KNOWN


@given(st.lists(json_values, max_size=3))
def test_no_answer_is_too_strange_to_read(providers: list[Any]) -> None:
    named = {each["id"] for each in providers if isinstance(each, dict) and isinstance(each.get("id"), str)}

    assert set(read_catalog({"providers": providers}).providers) == named


def test_a_list_of_unconnected_providers_alone_is_a_list() -> None:
    catalog = ModelCatalog({}, {"acme": "no key"})

    assert not catalog.connected("acme")
    assert not catalog.connected("another")
