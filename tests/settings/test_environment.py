import pytest

from fallback_plugin.settings.environment import blocked_names, environment_layer


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("5", 5),
        ("1.5", 1.5),
        ("true", True),
        ('"5m"', "5m"),
        ("5m", "5m"),
        ('["a", "b"]', ["a", "b"]),
        ('{ model = "a/b" }', {"model": "a/b"}),
        ("  stop  ", "stop"),
        ("1\nother = 2", "1\nother = 2"),
        ("9" * 5000, "9" * 5000),
    ],
)
def test_a_value_is_toml_where_it_can_be_and_text_elsewhere(text: str, value: object) -> None:
    assert environment_layer({"FALLBACK_PLUGIN__FALLBACK__KEY": text}).values == {"fallback": {"key": value}}


@pytest.mark.parametrize("text", ["a/b, c/d,", '["a/b", "c/d"]', '"a/b,c/d"'])
def test_a_list_of_names_may_be_written_with_commas(text: str) -> None:
    layer = environment_layer({"FALLBACK_PLUGIN__AGENTS__BUILD__FALLBACK_MODELS": text})
    assert layer.values == {"agents": {"build": {"fallback_models": ["a/b", "c/d"]}}}


def test_empty_and_foreign_variables_do_not_count() -> None:
    environ = {"FALLBACK_PLUGIN__FALLBACK__NOTIFY": " ", "FALLBACK_PLUGIN_BLOCK": "x", "FALLBACK": "y"}
    assert environment_layer(environ).values == {}


def test_a_key_is_placed_at_its_variable() -> None:
    layer = environment_layer({"FALLBACK_PLUGIN__LOG__LEVEL": "debug"})
    assert layer.place(("log", "level")) == "FALLBACK_PLUGIN__LOG__LEVEL"


def test_a_deeper_variable_replaces_a_value_that_is_no_table() -> None:
    environ = {"FALLBACK_PLUGIN__LOG": "x", "FALLBACK_PLUGIN__LOG__LEVEL": "debug"}
    assert environment_layer(environ).values == {"log": {"level": "debug"}}


def test_blocked_names_are_separated_by_commas() -> None:
    assert blocked_names({"FALLBACK_PLUGIN_BLOCK": " one, two,,"}) == ["one", "two"]
    assert blocked_names({}) == []
