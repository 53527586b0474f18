"""Which chain applies: the agent's own, the global one behind it, or none."""

import pytest

from fallback_plugin.fallback.chain import chain_for
from fallback_plugin.model_ref import ModelRef
from fallback_plugin.settings import Settings

GLOBAL = ["openai/gpt", "google/gemini"]
OWN = ["ollama/qwen", "mistral/large"]


def chain(agent: str | None, *, own: object = None, whole: object = None, model: object = None) -> list[str]:
    """Return the chain for an agent, where the agent ``build`` has its own settings."""
    build = {"fallback_models": own, "model": model}
    settings = Settings.model_validate(
        {
            "fallback": {"fallback_models": whole} if whole is not None else {},
            "agents": {"build": {key: value for key, value in build.items() if value is not None}},
        }
    )
    return [str(model) for model in chain_for(settings, agent)]


def test_an_agents_own_chain_goes_before_the_global_one() -> None:
    assert chain("build", own=OWN, whole=GLOBAL) == OWN


def test_an_agent_without_a_chain_gets_the_global_one() -> None:
    assert chain("build", whole=GLOBAL) == GLOBAL


def test_an_empty_chain_of_an_agent_does_not_hide_the_global_one() -> None:
    assert chain("build", own=[], whole=GLOBAL) == GLOBAL


def test_an_agent_that_is_not_configured_gets_the_global_chain() -> None:
    assert chain("plan", own=OWN, whole=GLOBAL) == GLOBAL


@pytest.mark.parametrize("agent", [None, "", "   "], ids=["none", "empty", "blank"])
def test_without_an_agent_the_global_chain_applies(agent: str | None) -> None:
    assert chain(agent, own=OWN, whole=GLOBAL) == GLOBAL


@pytest.mark.parametrize("agent", [None, "plan", "build"], ids=["none", "unknown", "known"])
def test_with_no_chain_anywhere_there_is_no_fallback(agent: str | None) -> None:
    assert chain(agent) == []


def test_an_agents_chain_does_not_serve_other_agents() -> None:
    assert chain("plan", own=OWN) == []


def test_without_an_agent_nothing_is_borrowed_from_one() -> None:
    assert chain(None, own=OWN) == []


@pytest.mark.parametrize("agent", ["build", "Build", " build ", "BUILD\n"])
def test_an_agents_name_is_found_whatever_its_case_and_margins(agent: str) -> None:
    assert chain(agent, own=OWN, whole=GLOBAL) == OWN


@pytest.mark.parametrize("key", ["Build", "BUILD", " build "])
def test_a_configured_name_matches_whatever_its_case_and_margins(key: str) -> None:
    settings = Settings.model_validate({"agents": {key: {"fallback_models": OWN}}})

    assert [str(model) for model in chain_for(settings, "build")] == OWN


def test_a_single_name_is_a_chain_of_one() -> None:
    assert chain("build", own="openai/gpt") == ["openai/gpt"]


def test_a_single_global_name_is_a_chain_of_one() -> None:
    assert chain(None, whole="openai/gpt") == ["openai/gpt"]


def test_a_repeated_model_counts_once() -> None:
    assert chain("build", own=["a/one", "b/two", "a/one"]) == ["a/one", "b/two"]


def test_variants_of_one_model_are_candidates_of_their_own() -> None:
    assert chain("build", own=["a/one:high", "a/one:low"]) == ["a/one:high", "a/one:low"]


def test_an_agents_own_model_stands_in_front_of_its_chain() -> None:
    assert chain("build", own=OWN, model="anthropic/opus") == ["anthropic/opus", *OWN]


@pytest.mark.parametrize("model", OWN)
def test_an_own_model_that_is_in_the_chain_stays_where_it_is(model: str) -> None:
    assert chain("build", own=OWN, model=model) == OWN


def test_an_own_model_in_another_variant_stands_in_front() -> None:
    assert chain("build", own=["a/one:low"], model="a/one:high") == ["a/one:high", "a/one:low"]


def test_an_own_model_is_not_put_in_front_of_the_global_chain() -> None:
    assert chain("build", model="anthropic/opus", whole=GLOBAL) == GLOBAL


def test_an_own_model_alone_is_no_chain() -> None:
    assert chain("build", own=[], model="anthropic/opus") == []


def test_agents_are_not_guessed_from_names_that_contain_theirs() -> None:
    assert chain("ses_build_1", own=OWN, whole=GLOBAL) == GLOBAL


def test_a_chain_holds_models_not_text() -> None:
    settings = Settings.model_validate({"fallback": {"fallback_models": ["a/one:high"]}})

    assert chain_for(settings, None) == (ModelRef("a", "one", "high"),)
