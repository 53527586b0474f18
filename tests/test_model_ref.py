"""Names of models: what is provider, what is model, and what is a variant."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fallback_plugin.errors import ModelRefError
from fallback_plugin.model_ref import VARIANTS, ModelRef

NAMES = st.text(st.characters(exclude_categories=["Cs", "Z", "Cc"], exclude_characters="/:"), min_size=1)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("openai/gpt-5.1", ModelRef("openai", "gpt-5.1")),
        ("openai/gpt-5.1:high", ModelRef("openai", "gpt-5.1", "high")),
        ("  openai/gpt-5.1:low\n", ModelRef("openai", "gpt-5.1", "low")),
        ("ollama/qwen3:8b", ModelRef("ollama", "qwen3:8b")),
        ("ollama/qwen3:8b:high", ModelRef("ollama", "qwen3:8b", "high")),
        ("openrouter/meta/llama-3", ModelRef("openrouter", "meta/llama-3")),
        ("openrouter/meta/llama-3:free", ModelRef("openrouter", "meta/llama-3:free")),
        ("openrouter/a/b/c:max", ModelRef("openrouter", "a/b/c", "max")),
        ("a/:high", ModelRef("a", ":high")),
        ("a/b:", ModelRef("a", "b:")),
        ("a/b:High", ModelRef("a", "b:High")),
    ],
)
def test_a_name_is_read(text: str, expected: ModelRef) -> None:
    assert ModelRef.parse(text) == expected


@pytest.mark.parametrize("variant", sorted(VARIANTS))
def test_every_known_variant_is_read_as_one(variant: str) -> None:
    assert ModelRef.parse(f"openai/gpt:{variant}").variant == variant


@pytest.mark.parametrize("text", ["", " ", "gpt", "/", "/gpt", "openai/", "openai/ ", "gpt:high"])
def test_a_name_without_provider_or_model_is_refused(text: str) -> None:
    with pytest.raises(ModelRefError, match="provider/model"):
        ModelRef.parse(text)


def test_a_refusal_repeats_the_name_and_shows_a_right_one() -> None:
    with pytest.raises(ModelRefError, match=r"'gpt' is not a model.*openai/gpt-5\.1"):
        ModelRef.parse("gpt")


@pytest.mark.parametrize(
    ("model", "text"),
    [
        (ModelRef("openai", "gpt"), "openai/gpt"),
        (ModelRef("openai", "gpt", "high"), "openai/gpt:high"),
        (ModelRef("openrouter", "meta/llama:free"), "openrouter/meta/llama:free"),
        (ModelRef("openai", "gpt", "thinking"), "openai/gpt:thinking"),
    ],
)
def test_a_model_is_written_as_people_write_it(model: ModelRef, text: str) -> None:
    assert str(model) == text


def test_models_that_differ_only_in_their_variant_are_different() -> None:
    assert len({ModelRef("a", "b"), ModelRef("a", "b", "low"), ModelRef("a", "b", "high")}) == 3


@settings(deadline=None)
@given(
    provider=NAMES,
    model=st.lists(NAMES, min_size=1, max_size=4).map("/".join),
    tag=st.none() | NAMES.filter(lambda tag: tag not in VARIANTS),
    variant=st.none() | st.sampled_from(sorted(VARIANTS)),
)
def test_what_is_written_is_read_back(
    provider: str, model: str, tag: str | None, variant: str | None
) -> None:
    ref = ModelRef(provider, f"{model}:{tag}" if tag else model, variant)

    assert ModelRef.parse(str(ref)) == ref


@settings(deadline=None)
@given(st.text())
def test_any_text_is_a_model_or_refused(text: str) -> None:
    try:
        found = ModelRef.parse(text)
    except ModelRefError:
        return
    assert str(found) == text.strip()
