from pathlib import Path

from fallback_plugin.settings.layer import Layer, Origin, dotted, merge
from fallback_plugin.settings.toml_positions import Position


def test_later_layers_win_key_by_key_and_lists_are_replaced() -> None:
    first = Layer(name="user file", values={"t": {"a": 1, "b": [1, 2]}})
    second = Layer(name="environment", values={"t": {"b": [3]}})
    values, origins = merge([first, second])
    assert values == {"t": {"a": 1, "b": [3]}}
    assert {path: origin.layer for path, origin in origins.items()} == {
        ("t", "a"): "user file",
        ("t", "b"): "environment",
    }


def test_a_model_written_as_a_table_is_replaced_whole() -> None:
    first = Layer(name="user file", values={"agents": {"x": {"model": {"model": "a/b", "variant": "high"}}}})
    second = Layer(name="project file", values={"agents": {"x": {"model": {"model": "c/d"}}}})
    values, _ = merge([first, second])
    assert values["agents"]["x"]["model"] == {"model": "c/d"}


def test_merging_leaves_the_layers_as_they_were() -> None:
    first = Layer(name="user file", values={"t": {"a": 1}})
    merge([first, Layer(name="environment", values={"t": {"a": 2}})])
    assert first.values == {"t": {"a": 1}}


def test_a_value_is_placed_at_its_own_key_or_the_table_around_it() -> None:
    layer = Layer(name="user file", values={}, file=Path("f.toml"), positions={("t",): Position(4, 2)})
    assert layer.place(("t", "a", "b")) == "f.toml:4:2"
    assert layer.place(("other",)) == "f.toml:1:1"


def test_keys_are_written_as_toml_writes_them() -> None:
    path = ("models", "ollama/qwen3", "list", 2, 'with "quote"')
    assert dotted(path) == r'models."ollama/qwen3".list[2]."with \"quote\""'


def test_an_origin_reads_as_layer_and_place() -> None:
    assert str(Origin("user file", Path("/f.toml"), 3)) == "user file /f.toml:3"
    assert str(Origin("environment", variable="X")) == "environment X"
    assert str(Origin("default")) == "default"
