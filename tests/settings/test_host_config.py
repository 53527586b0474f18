from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fallback_plugin.settings import read_host_config
from tests.settings.conftest import Machine

ODD: list[object] = [
    None,
    0,
    1,
    1.5,
    True,
    False,
    "",
    "  ",
    "no-slash",
    {},
    {"a": 1},
    [],
    [1, None, {}, "", []],
    [[]],
]


def agents(table: object) -> object:
    return read_host_config({"agent": table}).get("agents")


def test_a_list_keeps_its_order() -> None:
    assert agents({"build": {"fallback_models": ["a/b", "c/d"]}}) == {
        "build": {"fallback_models": ["a/b", "c/d"]}
    }


def test_a_single_string_is_a_list_of_one() -> None:
    assert agents({"build": {"fallback_models": "a/b"}}) == {"build": {"fallback_models": ["a/b"]}}


def test_a_chain_under_options_counts() -> None:
    assert agents({"build": {"options": {"fallback_models": ["a/b"]}}}) == {
        "build": {"fallback_models": ["a/b"]}
    }


def test_a_chain_of_the_agents_own_beats_the_one_under_options() -> None:
    both = {"fallback_models": ["a/b"], "options": {"fallback_models": ["c/d"]}}
    assert agents({"build": both}) == {"build": {"fallback_models": ["a/b"]}}


def test_the_agents_model_is_read() -> None:
    assert agents({"build": {"model": "a/b", "prompt": "…"}}) == {"build": {"model": "a/b"}}


def test_agents_beats_agent_if_it_is_a_table() -> None:
    raw = {"agents": {"one": {"model": "a/b"}}, "agent": {"two": {"model": "c/d"}}}
    assert read_host_config(raw) == {"agents": {"one": {"model": "a/b"}}}


@pytest.mark.parametrize("odd", [None, [], "x", 0, True])
def test_agent_counts_if_agents_is_no_table(odd: object) -> None:
    raw = {"agents": odd, "agent": {"two": {"model": "c/d"}}}
    assert read_host_config(raw) == {"agents": {"two": {"model": "c/d"}}}


def test_names_are_trimmed_and_in_lower_case() -> None:
    assert agents({" Build ": {"model": "a/b"}}) == {"build": {"model": "a/b"}}


def test_a_mixed_list_keeps_the_models_in_it() -> None:
    mixed = [None, "a/b", 3, "", "no-slash", {"model": "c/d", "variant": "high"}, {"x": 1}, ["e/f"], "a/b"]
    expected = ["a/b", {"model": "c/d", "variant": "high"}]
    assert agents({"build": {"fallback_models": mixed}}) == {"build": {"fallback_models": expected}}


@pytest.mark.parametrize("odd", ODD, ids=repr)
def test_an_odd_chain_is_no_chain(odd: object) -> None:
    assert read_host_config({"agent": {"build": {"fallback_models": odd}}}) == {}


@pytest.mark.parametrize("odd", ODD, ids=repr)
def test_an_odd_model_is_no_model(odd: object) -> None:
    assert read_host_config({"agent": {"build": {"model": odd}}}) == {}


@pytest.mark.parametrize("odd", ODD, ids=repr)
def test_an_odd_agent_is_no_agent(odd: object) -> None:
    assert read_host_config({"agent": {"build": odd, "plan": {"options": odd}}}) == {}


@pytest.mark.parametrize("odd", ODD, ids=repr)
def test_an_odd_config_is_empty(odd: object) -> None:
    assert read_host_config(odd) == {}


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text()
    | st.sampled_from(["a/b", "c/d:high"]),
    lambda inner: (
        st.lists(inner)
        | st.dictionaries(
            st.sampled_from(["agent", "agents", "model", "fallback_models", "options", "variant", "Build"]),
            inner,
        )
    ),
)


@given(JSON)
def test_no_config_can_raise_and_reading_twice_changes_nothing(raw: Any) -> None:
    layer = read_host_config(raw)
    assert read_host_config(layer) == layer


@given(JSON)
def test_whatever_the_host_holds_can_be_loaded(machine_without_files: Machine, raw: Any) -> None:
    host_config = raw if isinstance(raw, dict) else {"agent": raw}
    assert machine_without_files.load(host_config=host_config).settings.fallback.enabled


@pytest.fixture(scope="module")
def machine_without_files(tmp_path_factory: pytest.TempPathFactory) -> Machine:
    folder = tmp_path_factory.mktemp("machine")
    return Machine(folder, folder)


@pytest.mark.parametrize(
    ("agent", "key"),
    [
        ({"fallback_models": "a/b, c/d"}, "fallback_models"),
        ({"fallback_models": ["a/b, c/d"]}, "fallback_models"),
        ({"options": {"fallback_models": "a/b, c/d"}}, "options.fallback_models"),
        ({"model": "a/b, c/d"}, "model"),
    ],
)
def test_several_models_in_one_string_are_left_out_with_a_warning(
    machine: Machine, agent: object, key: str
) -> None:
    loaded = machine.load(host_config={"agent": {"build": agent}})
    assert loaded.settings.agents == {}
    (warning,) = loaded.warnings
    assert warning.startswith(f"host config: agent.build.{key}: 'a/b, c/d' is several models in one string")
    assert warning.endswith('write a list: ["a/b", "c/d"]; it is left out')
