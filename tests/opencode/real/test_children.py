"""Children of the `task` tool in the real OpenCode: what they answer late reaches their parent."""

import json
from typing import Final

import pytest

from tests.loopback.opencode_home import provider_each, ref
from tests.loopback.opencode_server import OpenCodeServer
from tests.loopback.provider import ScriptedProvider
from tests.loopback.reply import hang_before_headers, stream, tool_call
from tests.opencode.real.conftest import BeginTurn, StartServer

pytestmark = pytest.mark.real_host

SETTINGS: Final = """
[fallback]
fallback_models = ["of-fallback/fallback"]
[agents.slow]
fallback_models = ["of-silent/silent", "of-fallback/fallback"]
"""
KNOWN: Final = ("parent", "empty", "fallback")
QUIET_S: Final = 1.5
TASK: Final = {"description": "Finds out", "prompt": "Find it out.", "subagent_type": "worker"}


@pytest.fixture(scope="module")
def server(start_server: StartServer, provider: ScriptedProvider) -> OpenCodeServer:
    provider.script("parent", tool_call("task", TASK), stream("All ", "is known."))
    provider.script("empty", stream())
    provider.script("stopped", tool_call("task", {**TASK, "subagent_type": "slow"}))
    provider.script("nothing", stream())
    provider.script("silent", hang_before_headers())
    provider.script("fallback", stream("Found ", "out late."))
    return start_server(
        models=provider_each(("parent", "empty", "fallback", "stopped", "nothing", "silent")),
        settings=SETTINGS,
        config={
            "agent": {
                "worker": {"mode": "subagent", "description": "Finds out", "model": ref("empty")},
                "slow": {"mode": "subagent", "description": "Finds out", "model": ref("nothing")},
            },
            "permission": {"task": "allow"},
        },
    )


def test_the_answer_of_an_empty_childs_fallback_reaches_the_parent(
    begin: BeginTurn, provider: ScriptedProvider
) -> None:
    turn = begin(ref("parent")).wait_for_answer("All is known.")

    asked = [request.model for request in provider.requests() if request.model in KNOWN]
    assert asked == ["parent", "empty", "fallback", "parent"]
    told = [message for message in turn.requests()[-1].body["messages"] if message["role"] == "tool"]
    assert "Found out late." in json.dumps(told)


def test_P1_a_parents_stop_ends_the_run_of_its_childs_fallback(
    begin: BeginTurn, provider: ScriptedProvider
) -> None:
    """The tool began another run; OpenCode ends whatever its session runs."""
    turn = begin(ref("stopped"))
    provider.wait_for(lambda: len(provider.requests("silent")) == 1)
    (request,) = provider.requests("silent")
    assert request.session is not None
    asked = len(provider.requests(session=request.session))

    turn.stop()

    provider.wait_for(lambda: request.disconnected_at is not None)
    assert provider.is_quiet(request.session, after=asked, window_s=QUIET_S)
