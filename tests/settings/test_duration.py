import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fallback_plugin.settings.duration import MAX_DURATION_S, duration_s


@pytest.mark.parametrize(
    ("written", "seconds"),
    [
        ("60s", 60),
        ("5m", 300),
        ("1h30m", 5400),
        ("1.5h", 5400),
        ("500ms", 0.5),
        ("2d", 172_800),
        (" 1 H 30 M ", 5400),
        ("0s", 0),
        (0, 0),
        (90, 90),
        (2.5, 2.5),
        ("31d", MAX_DURATION_S),
    ],
)
def test_durations_are_read_as_seconds(written: object, seconds: float) -> None:
    assert duration_s(written) == seconds


@pytest.mark.parametrize(
    "written",
    [
        "abc", "", " ", "60", "s", "5 minutes", "-5s", "1h-30m", "nan", "inf", "32d", "1e3s", "٣s",
        math.nan, math.inf, -math.inf, -1, -0.5, 10**400, -(10**400), MAX_DURATION_S + 1,
        True, False, None, [], {}, ["60s"],
    ],
)  # fmt: skip
def test_anything_else_is_refused_with_advice(written: object) -> None:
    with pytest.raises(ValueError, match=r'write "90s", "5m", "1h30m" or a number of seconds'):
        duration_s(written)


@given(st.text() | st.integers() | st.floats() | st.none() | st.booleans())
def test_a_duration_is_always_finite_and_in_range(written: object) -> None:
    try:
        seconds = duration_s(written)
    except ValueError:
        return
    assert 0 <= seconds <= MAX_DURATION_S
