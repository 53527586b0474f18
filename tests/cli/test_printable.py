"""What is printed moves no cursor and always encodes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fallback_plugin.cli.printable import printable


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("“Now on spare/a” → é", "“Now on spare/a” → é"),
        ("\x1b[31mred", r"\x1b[31mred"),
        ("two\nlines", r"two\nlines"),
        ("half \ud800", r"half \ud800"),
        ("\u202eback", r"\u202eback"),
    ],
)
def test_what_cannot_be_shown_is_written_as_an_escape(text: str, shown: str) -> None:
    assert printable(text) == shown


@given(st.text(st.characters()))
def test_any_text_is_printable_and_encodes(text: str) -> None:
    assert printable(text).isprintable()
    assert printable(text).encode("utf-8").decode("utf-8") == printable(text)
