import pytest

from fallback_plugin.model_ref import ModelRef
from fallback_plugin.settings.chain_entry import chain_entries, model_ref, repeated_entries


@pytest.mark.parametrize(
    ("entry", "ref"),
    [
        ("openai/gpt-5.1", ModelRef("openai", "gpt-5.1")),
        ("openai/gpt-5.1:high", ModelRef("openai", "gpt-5.1", "high")),
        ({"model": "openai/gpt-5.1"}, ModelRef("openai", "gpt-5.1")),
        ({"model": "openai/gpt-5.1", "variant": "thinking"}, ModelRef("openai", "gpt-5.1", "thinking")),
        ({"model": "openai/gpt-5.1:high", "variant": "high"}, ModelRef("openai", "gpt-5.1", "high")),
        ({"model": "ollama/qwen3:8b", "variant": "low"}, ModelRef("ollama", "qwen3:8b", "low")),
        (ModelRef("a", "b"), ModelRef("a", "b")),
        ("lmstudio/My Model 7B", ModelRef("lmstudio", "My Model 7B")),
        (" openrouter/acme/first ", ModelRef("openrouter", "acme/first")),
    ],
)
def test_an_entry_names_a_model_with_its_variant(entry: object, ref: ModelRef) -> None:
    assert model_ref(entry) == ref


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ("gpt-5.1", "write it as provider/model"),
        (3, "is not a model"),
        (None, "is not a model"),
        ({"variant": "high"}, "needs model"),
        ({"model": 3}, "needs model"),
        ({"model": "a/b", "varient": "high"}, "did you mean 'variant'"),
        ({"model": "a/b", "colour": "red"}, "has model, variant and paid"),
        ({"model": "a/b", "variant": " "}, "is not a variant"),
        ({"model": "a/b:low", "variant": "high"}, "give it once"),
        ("a/b, c/d", r'several models in one string; write a list: \["a/b", "c/d"\]'),
        ("a/b,c/d:high", r'write a list: \["a/b", "c/d:high"\]'),
        ("a/b; c/d", r'write a list: \["a/b", "c/d"\]'),
        ("a/b c/d", r'write a list: \["a/b", "c/d"\]'),
        ("a/b\n c/d", r'write a list: \["a/b", "c/d"\]'),
        ({"model": "a/b, c/d"}, r'write a list: \["a/b", "c/d"\]'),
        ("a/gpt-5,1", "its name has no comma"),
        ("a/b,", "its name has no comma"),
    ],
)
def test_an_odd_entry_is_refused_with_advice(entry: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        model_ref(entry)


def test_a_single_entry_is_a_chain_of_one() -> None:
    assert chain_entries("a/b") == ["a/b"]
    assert chain_entries({"model": "a/b"}) == [{"model": "a/b"}]


def test_a_chain_of_another_type_is_refused() -> None:
    with pytest.raises(ValueError, match="is not a chain"):
        chain_entries(5)


def test_only_entries_with_the_same_variant_repeat_each_other() -> None:
    chain = ["a/b", "a/b:high", {"model": "a/b", "variant": "high"}, "c/d", "a/b"]
    assert repeated_entries(chain) == [(2, ModelRef("a", "b", "high")), (4, ModelRef("a", "b"))]
