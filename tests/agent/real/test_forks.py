"""A fork holds a copy of a session's history, and nothing is being answered in it."""

import time
from collections.abc import Iterator
from typing import Any, Final

import httpx2
import pytest

from tests.loopback.agent_server import AgentHome, AgentServer
from tests.loopback.provider import ScriptedProvider
from tests.loopback.reply import Pause, stream

pytestmark = pytest.mark.real_host

STALL_S: Final = 1.0
SETTINGS: Final = f"""
[fallback]
fallback_models = ["spare/answers"]
first_token_timeout = "{STALL_S:g}s"
stall_timeout = "{STALL_S:g}s"
cooldown = "60s"

[serve]
model = "main/answers"
"""
SLOWLY: Final = [piece for number in range(25) for piece in (f"{number} ", Pause(0.1))]


@pytest.fixture
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AgentServer]:
    scripts = {"answers": [stream("The answer.")], "slow": [stream(*SLOWLY)]}
    models = {"main": ["answers", "slow"], "spare": ["answers"]}
    with ScriptedProvider(scripts) as provider:
        home = AgentHome(tmp_path_factory.mktemp("host"), provider, models, SETTINGS)
        with AgentServer(home) as server:
            yield server


def test_H4_a_fork_that_is_left_alone_closes_no_model(server: AgentServer) -> None:
    for turns in (1, 2, 3):
        _fork(server, turns)

    time.sleep(6 * STALL_S)  # the window in which nothing may be given up

    assert server.events.toasts() == []
    assert _get(server, "/switches") == []
    chains = _get(server, "/health")["chains"]
    assert {model["state"] for chain in chains for model in chain["models"]} == {"open"}


def test_H4_a_healthy_turn_of_a_fork_is_not_cut(server: AgentServer) -> None:
    forks = [_fork(server, turns) for turns in (1, 2, 3)]
    for fork in forks:
        server.prompt(fork, "Go on, slowly.", "main/slow")
    for fork in forks:
        server.wait_for_answer(fork, "".join(piece for piece in SLOWLY if isinstance(piece, str)))
    assert _get(server, "/switches") == []


def _fork(server: AgentServer, turns: int) -> str:
    session = server.create_session()
    for _ in range(turns):
        position = server.events.position
        server.prompt(session, "Who answers?")
        server.wait_for_answer(session, "The answer.", since=position)
    fork: str = httpx2.post(f"{server.url}/session/{session}/fork", json={}, timeout=20).json()["id"]
    return fork


def _get(server: AgentServer, path: str) -> Any:
    return httpx2.get(server.url + path, timeout=20).json()
