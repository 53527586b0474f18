from typing import cast

import pytest

from fallback_plugin.health.closure import FORGOTTEN_AFTER_S, Closure
from fallback_plugin.health.closures import Closures
from fallback_plugin.health.scope import Key

KEY = Key("model", "openai", "gpt-5.1")
OTHER = Key("account", "anthropic")
RECORD = Closure(10, "quota", 1, 0)


def known() -> Closures:
    closures = Closures()
    closures.replace({KEY: RECORD, OTHER: RECORD})
    return closures


def test_asking_again_gives_the_same_records_until_something_changes() -> None:
    closures = known()
    before = closures.all()

    closures.put(KEY, RECORD)
    assert closures.all() is before

    closures.put(KEY, None)
    assert closures.all() == {OTHER: RECORD}


def test_what_was_handed_out_does_not_change_and_cannot_be_changed() -> None:
    closures = known()
    handed_out = closures.all()

    closures.put(KEY, None)
    closures.put(OTHER, Closure(20, "quota", 1, 0))

    assert handed_out == {KEY: RECORD, OTHER: RECORD}
    with pytest.raises(TypeError):
        cast("dict[Key, Closure]", handed_out)[OTHER] = RECORD


def test_that_other_machines_know_a_record_is_written_down_too() -> None:
    closures = known()

    closures.put(KEY, Closure(10, "quota", 1, 0, shared=True))

    assert closures.all()[KEY].shared


def test_old_records_are_forgotten() -> None:
    closures = known()
    closures.put(KEY, Closure(11, "quota", 1, 0))

    closures.forget(10 + FORGOTTEN_AFTER_S)

    assert closures.all().keys() == {KEY}


def test_a_key_that_is_not_closed_has_no_record() -> None:
    assert Closures().get(KEY) is None
