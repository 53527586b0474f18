"""The scanner against the parser: hypothesis writes documents in every style TOML has."""

import itertools
import re
from collections.abc import Iterator
from typing import Any

import tomli
from hypothesis import given
from hypothesis import strategies as st

from fallback_plugin.settings.toml_positions import KeyPath, Position, toml_positions


def test_every_way_to_write_a_key_is_placed() -> None:
    text = """\
# a comment with [brackets] and key = 1
top = 1
a.b."c.d" = "text = # no comment"
'quoted key' = '''
fake = 1
''''

[ table . "sub table" ]
list = [ # comment ]
  1,
  { x = 1, y.z = [2] },
]
long = \"\"\"
[fake]
\\\"\"\" escaped\"\"\"\"\"
after = 1979-05-27 07:32:00

[[rules]]
pattern = 'a'
  [[rules]]
  pattern = 'b'
  [rules.nested]
  deep = true
"""
    tomli.loads(text)
    assert {".".join(map(str, path)): tuple(place) for path, place in toml_positions(text).items()} == {
        "top": (2, 1),
        "a": (3, 1),
        "a.b": (3, 3),
        "a.b.c.d": (3, 5),
        "quoted key": (4, 1),
        "table": (8, 1),
        "table.sub table": (8, 1),
        "table.sub table.list": (9, 1),
        "table.sub table.list.0": (10, 3),
        "table.sub table.list.1": (11, 3),
        "table.sub table.list.1.x": (11, 5),
        "table.sub table.list.1.y": (11, 12),
        "table.sub table.list.1.y.z": (11, 14),
        "table.sub table.list.1.y.z.0": (11, 19),
        "table.sub table.long": (13, 1),
        "table.sub table.after": (16, 1),
        "rules": (18, 1),
        "rules.0": (18, 1),
        "rules.0.pattern": (19, 1),
        "rules.1": (20, 3),
        "rules.1.pattern": (21, 3),
        "rules.1.nested": (22, 3),
        "rules.1.nested.deep": (23, 3),
    }


def test_line_ends_of_windows_count_once() -> None:
    assert toml_positions("a = 1\r\n\r\n[b]\r\nc = 2\r\n")["b", "c"] == Position(4, 1)


def test_an_inline_table_may_span_lines() -> None:
    assert toml_positions("a = {\n  # comment\n  b = 1,\n  c = 2,\n}\nd = 1\n")["a", "c"] == Position(4, 3)


SCALARS = st.integers(0, 99) | st.booleans() | st.text(st.sampled_from("ab=\"'#[]{},.\\\n \té"), max_size=8)
VALUES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(st.sampled_from("ab-_ .\"'#=[]é"), max_size=4), inner, max_size=3)
    ),
    max_leaves=12,
)
DOCUMENTS = st.dictionaries(st.text(st.sampled_from("abcd .#é"), max_size=3), VALUES, max_size=4)


class Writer:
    """Writes a document, taking each free choice of style from ``draw``."""

    def __init__(self, draw: st.DrawFn) -> None:
        self.draw = draw

    def pick(self, *choices: str) -> str:
        return self.draw(st.sampled_from(choices))

    def blank(self) -> str:
        return self.pick("", " ", "\t ")

    def space(self) -> str:
        """White space where line ends are allowed."""
        return self.pick("", " ", "\n", " # [x] = {1, \"'\n  ")

    def key(self, key: str) -> str:
        styles = [self.basic(key)]
        if re.fullmatch(r"[A-Za-z0-9_-]+", key, re.ASCII):
            styles.append(key)
        if "'" not in key and key.isprintable():
            styles.append(f"'{key}'")
        return self.pick(*styles)

    def basic(self, text: str) -> str:
        escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\t", "\\t")
        return f'"{escaped}"'

    def string(self, text: str) -> str:
        styles = [self.basic(text), '"""\n' + text.replace("\\", "\\\\").replace('"""', '""\\"') + '"""']
        if "'" not in text:
            styles.append(f"'''\n{text}'''")
            if "\n" not in text:
                styles.append(f"'{text}'")
        return self.pick(*(style for style in styles if _parses_to(style, text)))

    def value(self, value: Any) -> str:
        if isinstance(value, bool):
            return str(value).lower()
        if isinstance(value, int):
            return str(value)
        if isinstance(value, str):
            return self.string(value)
        if isinstance(value, list):
            inner = ",".join(f"{self.space()}{self.value(item)}{self.space()}" for item in value)
            return f"[{inner}{self.space() if value else ''}]"
        inner = ",".join(f"{self.space()}{self.pair(key, item)}{self.space()}" for key, item in value.items())
        return f"{{{inner}}}"

    def pair(self, key: str, value: Any) -> str:
        name = self.key(key)
        while isinstance(value, dict) and len(value) == 1 and self.draw(st.booleans()):
            ((key, value),) = value.items()
            name += f"{self.blank()}.{self.blank()}{self.key(key)}"
        return f"{name}{self.blank()}={self.blank()}{self.value(value)}"

    def table(self, table: dict[str, Any], name: str) -> Iterator[str]:
        headed: list[tuple[str, dict[str, Any], str]] = []
        for key, value in table.items():
            inner = f"{name}{self.blank()}.{self.blank()}{self.key(key)}" if name else self.key(key)
            if isinstance(value, dict) and self.draw(st.booleans()):
                headed.append(("[%s]", value, inner))
            elif _is_list_of_tables(value) and self.draw(st.booleans()):
                headed += [("[[%s]]", element, inner) for element in value]
            else:
                yield f"{self.pair(key, value)}{self.blank()}{self.pick('', '# a = [')}\n"
        for header, inner_table, inner in headed:
            yield self.pick("", "\n", "# [x]\n") + header % f"{self.blank()}{inner}{self.blank()}" + "\n"
            yield from self.table(inner_table, inner)


def _parses_to(style: str, text: str) -> bool:
    try:
        return bool(tomli.loads(f"key = {style}")["key"] == text)
    except tomli.TOMLDecodeError:
        return False


def _is_list_of_tables(value: object) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(item, dict) for item in value)


def _numbered(value: Any, numbers: Iterator[int]) -> Any:
    """Return the value with each integer replaced by one that occurs nowhere else."""
    if isinstance(value, dict):
        return {key: _numbered(item, numbers) for key, item in value.items()}
    if isinstance(value, list):
        return [_numbered(item, numbers) for item in value]
    return next(numbers) if isinstance(value, int) and not isinstance(value, bool) else value


@st.composite
def written_documents(draw: st.DrawFn) -> tuple[dict[str, Any], str]:
    document = _numbered(draw(DOCUMENTS), itertools.count(100_000))
    return document, "".join(Writer(draw).table(document, ""))


def _paths(value: Any, path: KeyPath) -> Iterator[tuple[KeyPath, object]]:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield (*path, key), item
        yield from _paths(item, (*path, key))


@given(written_documents())
def test_exactly_the_keys_of_the_document_are_found(written: tuple[dict[str, Any], str]) -> None:
    document, text = written
    assert tomli.loads(text) == document
    assert toml_positions(text).keys() == {path for path, _ in _paths(document, ())}


@given(written_documents())
def test_a_numbers_position_is_its_line(written: tuple[dict[str, Any], str]) -> None:
    document, text = written
    positions = toml_positions(text)
    lines = text.split("\n")
    for path, value in _paths(document, ()):
        if isinstance(value, int) and not isinstance(value, bool):
            place = positions[path]
            assert str(value) in lines[place.line - 1][place.column - 1 :]
