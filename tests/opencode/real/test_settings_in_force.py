"""Settings in the real OpenCode: a change is in force soon, a mistake is said, an agent has its chain."""

import json
import time
from typing import Final

import pytest

from tests.loopback.opencode_server import OpenCodeServer
from tests.loopback.provider import ScriptedProvider
from tests.loopback.reply import status, stream
from tests.opencode.real.conftest import StartServer

pytestmark = pytest.mark.real_host

RELOAD_LIMIT_S: Final = 2.0
BROKEN: Final = '[fallback]\nfallback_models = ["fakeb/fallback-a"\nmax_attempts = 3\n'


def settings(chain: str) -> str:
    # Nothing cools, so that one failing model serves any number of turns.
    return f'[fallback]\ncooldown = 0\nfallback_models = ["{chain}"]\n'


@pytest.fixture(scope="module")
def server(start_server: StartServer, provider: ScriptedProvider) -> OpenCodeServer:
    provider.script("429", status(429))
    for name in "abc":
        provider.script(f"fallback-{name}", stream(f"Answer of {name}."))
    return start_server(
        models={"fake": ["429"], "fakeb": ["fallback-a", "fallback-b", "fallback-c"]},
        settings=settings("fakeb/fallback-a"),
        config={"agent": {"build": {"fallback_models": ["fakeb/fallback-c"]}}},
    )


def answer(server: OpenCodeServer, agent: str) -> str:
    """Run a turn on the failing model and return the text of its answer."""
    session = server.create_session()
    began = server.events.position
    server.prompt(session, "Who answers?", "fake/429", agent=agent)
    done = server.events.wait_for(
        lambda event: (
            event["type"] == "message.part.updated"
            and event["properties"]["part"]["sessionID"] == session
            and event["properties"]["part"].get("text", "").startswith("Answer")
            and "end" in event["properties"]["part"].get("time", {})
        ),
        since=began,
    )
    text: str = done["properties"]["part"]["text"]
    server.wait_for_answer(session, text, since=began)
    return text


def test_a_changed_chain_is_in_force_within_two_seconds(server: OpenCodeServer) -> None:
    server.home.write_settings(settings("fakeb/fallback-a"))
    server.home.write_settings(settings("fakeb/fallback-b"))
    changed = time.monotonic()

    began = changed
    while answer(server, "plan") != "Answer of b.":
        assert began - changed < RELOAD_LIMIT_S, "a turn that began after the limit still had the old chain"
        began = time.monotonic()


def test_a_broken_file_is_said_and_the_last_good_settings_stay(server: OpenCodeServer) -> None:
    before = answer(server, "plan")
    position = server.events.position

    server.home.write_settings(BROKEN)

    toast = server.events.wait_for_toast("error", since=position)
    assert "fallback.toml:" in toast["message"]
    assert answer(server, "plan") == before


def test_a_chain_in_the_hosts_configuration_is_its_agents(server: OpenCodeServer) -> None:
    assert answer(server, "build") == "Answer of c."


def test_a_chain_in_the_hosts_configuration_does_not_reach_the_provider(
    server: OpenCodeServer, provider: ScriptedProvider
) -> None:
    answer(server, "build")

    assert not [request for request in provider.requests() if "fallback_models" in json.dumps(request.body)]
