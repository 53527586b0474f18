"""Identifiers have OpenCode's form and rise in the order in which they are made, whatever the clock does."""

import json
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fallback_plugin.agent.identifiers import Identifiers, Kind, new_id
from tests.agent.whole_host import complete, new_session, running_host, settings_for
from tests.loopback.provider import ScriptedProvider
from tests.loopback.reply import thinking, tool_call

RECORDINGS = Path(__file__).parent.parent / "opencode" / "recordings"
FORM = re.compile(r"(msg|prt|ses|evt)_[0-9a-f]{12}[0-9A-Za-z]{14}")
AT = 1795812914.608
"""When OpenCode made the session of the recording ``429.jsonl``."""

RISING: tuple[Kind, ...] = ("msg", "prt", "run", "per", "call")


class _Clock:
    """A clock that shows what it is set to."""

    def __init__(self, *readings: float) -> None:
        self._readings = list(readings)

    def __call__(self) -> float:
        return self._readings.pop(0) if len(self._readings) > 1 else self._readings[0]


def _named(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        if isinstance(value.get("id"), str):
            yield value["id"]
        value = list(value.values())
    if isinstance(value, list):
        for each in value:
            yield from _named(each)


def _recorded_events() -> Iterator[dict[str, Any]]:
    for recording in sorted(RECORDINGS.glob("*.jsonl")):
        for line in recording.read_text().splitlines():
            if (event := json.loads(line).get("event")) is not None:
                yield event


def test_H5_every_recorded_identifier_of_opencode_has_the_form_of_ours() -> None:
    kinds = ("msg_", "prt_", "ses_", "evt_")
    recorded = {name for event in _recorded_events() for name in _named(event) if name.startswith(kinds)}
    assert len(recorded) > 100
    assert [name for name in recorded if not FORM.fullmatch(name)] == []
    ours = [new_id("msg"), new_id("prt"), new_id("ses"), new_id("evt")]
    assert [name for name in ours if not FORM.fullmatch(name)] == []


def _milliseconds(session_id: str) -> int:
    """Return the time in a session's identifier: the low 36 bits of it, taken from what descends."""
    return ~int(session_id[4:16], 16) % (1 << 48) >> 12


def test_H5_the_time_in_an_identifier_is_where_opencode_puts_it() -> None:
    made_at = {
        event["properties"]["info"]["id"]: event["properties"]["info"]["time"]["created"]
        for event in _recorded_events()
        if event.get("type") == "session.created"
    }
    assert len(made_at) > 10
    for session_id, created in made_at.items():
        # OpenCode reads its clock once for each of the two.
        assert abs(_milliseconds(session_id) - created % (1 << 36)) <= 1
        assert _milliseconds(Identifiers(_Clock(created / 1000))("ses")) == created % (1 << 36)
    assert Identifiers(_Clock(AT))("ses").startswith("ses_de1358a4fffe")
    assert Identifiers(_Clock(AT))("msg").startswith("msg_21eca75b0001")


@pytest.mark.parametrize("kind", RISING)
def test_H5_many_identifiers_of_one_millisecond_rise(kind: Kind) -> None:
    make = Identifiers(_Clock(AT))
    made = [make(kind) for _ in range(10_000)]
    assert made == sorted(set(made))


@given(st.lists(st.floats(min_value=1.787e9, max_value=1.855e9), min_size=1, max_size=50))
def test_H5_identifiers_rise_under_any_clock(readings: list[float]) -> None:
    make = Identifiers(_Clock(*readings))
    made = [make("msg") for _ in range(len(readings) + 3)]
    assert all(earlier < later for earlier, later in pairwise(made))


def test_H5_identifiers_of_sessions_descend() -> None:
    make = Identifiers(_Clock(AT, AT, AT + 1, AT - 60, AT + 86400))
    made = [make("ses") for _ in range(5)]
    assert made == sorted(made, reverse=True)


def test_H5_a_new_process_goes_on_from_its_clock() -> None:
    before = Identifiers(_Clock(AT))
    made = [before("msg") for _ in range(100)]
    assert made[-1] < Identifiers(_Clock(AT + 0.001))("msg")


def test_H5_threads_that_share_the_maker_never_get_one_twice_and_each_sees_them_rise() -> None:
    make = Identifiers(_Clock(AT))
    with ThreadPoolExecutor(8) as threads:
        lists = list(threads.map(lambda _: [make("prt") for _ in range(500)], range(8)))
    assert all(made == sorted(made) for made in lists)
    assert len({name[:16] for made in lists for name in made}) == 8 * 500


@pytest.mark.anyio
async def test_H5_messages_and_parts_sort_by_their_ids_the_way_they_are_stored(
    provider: ScriptedProvider, tmp_path: Path
) -> None:
    provider.script("first", tool_call("read", {"path": "."}), thinking("Well …", answer="Yes."))
    async with running_host(tmp_path, settings_for(provider, permissions={"read": "allow"})) as host:
        session_id = await new_session(host)
        for text in ("one", "two", "three"):
            await complete(host, session_id, text)
        fork = await host.sessions.fork(session_id)
        for each in (session_id, fork.id):
            history = await host.history(each)
            message_ids = [item["info"]["id"] for item in history]
            part_ids = [part["id"] for item in history for part in item["parts"]]
            assert len(message_ids) > 6
            assert message_ids == sorted(message_ids)
            assert part_ids == sorted(part_ids)
