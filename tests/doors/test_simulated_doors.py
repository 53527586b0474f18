"""The same sequence in the engine of every kind of host ends alike, step by step."""

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from tests.doors.differences import differences
from tests.doors.sequences import MODELS, Prompt, draw
from tests.doors.simulated import SIMULATED, SimulatedAttached, SimulatedInside, simulated


@pytest.mark.timeout(7200)
@given(seed=st.integers(0, 2**32))
@hypothesis_settings(max_examples=300)
def test_a_sequence_ends_alike_in_every_kind_of_host(seed: int) -> None:
    inside, *others = [door() for door in SIMULATED]
    steps = [simulated(step) for step in draw(seed, 10)]
    for number, step in enumerate(steps, 1):
        seen = inside.take_step(step)
        for other in others:
            lines = differences(other.name, step, seen, other.take_step(step))
            assert not lines, "\n".join([*map(str, steps[:number]), f"{other.name}:", *lines])


@pytest.mark.parametrize("door", [SimulatedInside, SimulatedAttached])
def test_a_last_model_whose_stream_is_cut_is_not_asked_without_end(door: type[SimulatedInside]) -> None:
    """Seen in the real OpenCode: 87 requests in 30 s after "All fallbacks exhausted"."""
    inside = door()
    seen = inside.take_step(Prompt("primary", dict.fromkeys(MODELS, "cut")))

    assert seen.outcome == "no answer"
    assert inside.host.run is None
