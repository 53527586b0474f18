"""The stream of all folders, told apart."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fallback_plugin.attach.all_folders import of_folder

IDLE = {"id": "evt_1", "type": "session.idle", "properties": {"sessionID": "ses_1"}}

plain = (
    st.none() | st.booleans() | st.integers() | st.sampled_from(["", "/a", "global", "sync", "session.idle"])
)
payloads = plain | st.dictionaries(st.sampled_from(["type", "properties"]), plain)


def test_an_event_is_handed_on_with_its_folder() -> None:
    assert of_folder({"directory": "/a", "project": "global", "payload": IDLE}) == ("/a", IDLE)


@pytest.mark.parametrize(
    "raw",
    [
        {"payload": {"type": "server.connected", "properties": {}}},
        {"directory": "global", "payload": {"type": "project.updated", "properties": {}}},
        {"directory": "/a", "payload": {"type": "sync", "syncEvent": {"type": "session.idle.1"}}},
        {"directory": "/a", "payload": None},
        {"directory": 7, "payload": IDLE},
        {"directory": "/a"},
        IDLE,
    ],
)
def test_what_no_folder_has_is_left_out(raw: dict[str, Any]) -> None:
    assert of_folder(raw) is None


@given(st.dictionaries(st.sampled_from(["directory", "payload", "type"]), payloads))
def test_whatever_comes_is_an_event_of_a_folder_or_nothing(raw: dict[str, Any]) -> None:
    found = of_folder(raw)

    assert found is None or (found.directory == raw["directory"] and found.raw == raw["payload"])
