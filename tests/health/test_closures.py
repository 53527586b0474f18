from typing import cast

import pytest

from fallback_plugin.health.closures import NEVER, Closures
from fallback_plugin.model_ref import ModelRef

MODEL = ModelRef("openai", "gpt-5.1")
OTHER = ModelRef("anthropic", "claude-opus-4-5")


def closed(until: dict[ModelRef, float]) -> Closures:
    closures = Closures()
    closures.replace(until)
    return closures


def test_asking_again_gives_the_same_view_until_something_changes() -> None:
    closures = closed({MODEL: 10, OTHER: 20})
    view = closures.at(1)

    assert closures.at(9.9) is view
    assert closures.at(10) == {OTHER: 20}


def test_a_view_is_right_when_the_clock_is_set_back() -> None:
    closures = closed({MODEL: 10})
    assert closures.at(15) == {}

    assert closures.at(5) == {MODEL: 10}


def test_a_view_handed_out_does_not_change_and_cannot_be_changed() -> None:
    closures = closed({MODEL: 10})
    view = closures.at(1)

    closures.open(MODEL)

    assert view == {MODEL: 10}
    with pytest.raises(TypeError):
        cast("dict[ModelRef, float]", view)[OTHER] = 1


def test_a_model_that_is_not_closed_is_closed_until_never() -> None:
    assert Closures()[MODEL] == NEVER
