"""Children of the `task` tool in the real OpenCode: what they answer late reaches their parent."""

import json
from typing import Final

import pytest

from tests.loopback.opencode_home import provider_each, ref
from tests.loopback.opencode_server import OpenCodeServer
from tests.loopback.provider import ScriptedProvider
from tests.loopback.reply import stream, tool_call
from tests.opencode.real.conftest import BeginTurn, StartServer

pytestmark = pytest.mark.real_host

SETTINGS: Final = '[fallback]\nfallback_models = ["of-fallback/fallback"]\n'
TASK: Final = {"description": "Finds out", "prompt": "Find it out.", "subagent_type": "worker"}


@pytest.fixture(scope="module")
def server(start_server: StartServer, provider: ScriptedProvider) -> OpenCodeServer:
    provider.script("parent", tool_call("task", TASK), stream("All ", "is known."))
    provider.script("empty", stream())
    provider.script("fallback", stream("Found ", "out late."))
    return start_server(
        models=provider_each(("parent", "empty", "fallback")),
        settings=SETTINGS,
        config={
            "agent": {"worker": {"mode": "subagent", "description": "Finds out", "model": "of-empty/empty"}},
            "permission": {"task": "allow"},
        },
    )


def test_the_answer_of_an_empty_childs_fallback_reaches_the_parent(
    begin: BeginTurn, provider: ScriptedProvider
) -> None:
    turn = begin(ref("parent")).wait_for_answer("All is known.")

    assert [request.model for request in provider.requests()] == ["parent", "empty", "fallback", "parent"]
    told = [message for message in turn.requests()[-1].body["messages"] if message["role"] == "tool"]
    assert "Found out late." in json.dumps(told)
