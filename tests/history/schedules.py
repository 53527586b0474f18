"""Schedules that hypothesis makes by running the Python pager, each step with what it showed then."""

import asyncio
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.history.world import World


def schedules() -> list[dict[str, Any]]:
    """Return schedules of calls, events and answers; each was checked as it was made."""
    made: list[dict[str, Any]] = []

    @given(st.data())
    def make(data: st.DataObject) -> None:
        world = World(data)
        asyncio.run(world.run())
        made.append({"options": world.options, "steps": world.record})

    make()
    return made
