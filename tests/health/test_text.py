"""Keys, records and leases come back from their text as they went in, whatever stands in them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fallback_plugin.health.closure import Closure, Probe
from fallback_plugin.health.scope import Key
from fallback_plugin.health.text import entry_text, key_text, lease_text, read_entry, read_key, read_lease

TEXTS = st.text(st.characters(exclude_categories=()), max_size=20)
TIMES = st.floats(allow_nan=False, allow_infinity=False)
KEYS = st.builds(Key, st.sampled_from(["model", "provider", "account", "upstream"]), TEXTS, TEXTS, TEXTS)
RECORDS = st.builds(
    Closure, TIMES, TEXTS, st.integers(1, 10**6), TIMES, st.none() | st.builds(Probe, TEXTS, TIMES)
)


@given(KEYS, st.none() | RECORDS)
def test_what_is_written_is_read_again(key: Key, record: Closure | None) -> None:
    assert read_key(key_text(key)) == key
    assert read_entry(entry_text(key, record)) == (key, record)
    assert entry_text(key, record).isascii()


@given(TEXTS, TIMES)
def test_a_lease_is_read_again(holder: str, until: float) -> None:
    assert read_lease(lease_text(holder, until)) == (holder, until)


@given(KEYS, KEYS)
def test_two_keys_never_have_one_text(one: Key, other: Key) -> None:
    assert (key_text(one) == key_text(other)) is (one == other)


@pytest.mark.parametrize(
    "text",
    ["", "x", "{}", "[]", "null", '["model","p","m"]', '["world","p","m",""]', '[["model"],{}]', "[" * 9999],
)
def test_anything_else_is_none(text: str) -> None:
    assert read_key(text) is None
    assert read_entry(text) is None
    assert read_lease(text) is None


def test_a_record_that_cannot_be_read_is_none_of_a_known_key() -> None:
    assert read_entry('[["model","p","m",""],{"until":"soon"}]') == (Key("model", "p", "m"), None)
