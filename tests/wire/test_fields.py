"""Typed access to the fields of a JSON object."""

from typing import Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fallback_plugin.errors import WireError
from fallback_plugin.wire import fields

VALUES: Final = {
    "null": None,
    "truth": True,
    "whole": 1,
    "fraction": 1.5,
    "text": "text",
    "empty": "",
    "list": [1],
    "object": {"a": 1},
}


def accepted(reader: str) -> set[str]:
    """Return which kinds of value a reader takes."""
    taken = set()
    for name in VALUES:
        try:
            found = getattr(fields, reader)(VALUES, name)
        except WireError:
            continue
        if found is not None:
            taken.add(name)
    return taken


@pytest.mark.parametrize(
    ("reader", "taken"),
    [
        ("text", {"text", "empty"}),
        ("integer", {"whole"}),
        ("number", {"whole", "fraction"}),
        ("seconds", {"whole", "fraction"}),
        ("optional_object", {"object"}),
        ("required_text", {"text"}),
        ("required_object", {"object"}),
    ],
)
def test_a_reader_takes_its_own_type_and_nothing_else(reader: str, taken: set[str]) -> None:
    assert accepted(reader) == taken


@pytest.mark.parametrize("reader", ["text", "integer", "number", "seconds", "optional_object"])
def test_an_absent_field_is_none(reader: str) -> None:
    assert getattr(fields, reader)({}, "field") is None


@pytest.mark.parametrize("reader", ["required_text", "required_object"])
def test_an_absent_field_that_is_required_is_refused_by_its_name(reader: str) -> None:
    with pytest.raises(WireError, match="'field'"):
        getattr(fields, reader)({}, "field")


def test_a_refusal_does_not_repeat_the_value() -> None:
    with pytest.raises(WireError) as caught:
        fields.required_object({"field": "secret"}, "field")

    assert "secret" not in str(caught.value)


def test_a_time_is_turned_from_milliseconds_into_seconds() -> None:
    assert fields.seconds({"created": 1_795_000_000_250}, "created") == 1_795_000_000.25


@settings(deadline=None)
@given(st.integers(0, 10**13))
def test_a_time_keeps_its_milliseconds(milliseconds: int) -> None:
    assert round((fields.seconds({"at": milliseconds}, "at") or 0) * 1000) == milliseconds
