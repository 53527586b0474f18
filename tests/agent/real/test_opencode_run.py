"""The real ``opencode run --attach`` as a client of our own host."""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.loopback.agent_server import AgentHome, AgentServer
from tests.loopback.opencode_home import OpenCodeHome
from tests.loopback.opencode_run import Finished, run
from tests.loopback.provider import ScriptedProvider
from tests.loopback.reply import Reply, stream, tool_call

# Nine starts of OpenCode, one after the other.
pytestmark = [pytest.mark.real_host, pytest.mark.timeout(300)]

MODELS: Final = {"fake": ["quick", "works"]}
QUICK_ANSWERS: Final = 6
TOOL_CALLS: Final = 3
SETTINGS: Final = """
[permissions]
bash = "allow"
"""


def _tool_then_answer(number: int) -> tuple[Reply, Reply]:
    call = tool_call("bash", {"command": f"echo {number}"}, call_id=f"call_{number}")
    return call, stream(f"Done {number}.")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AgentServer]:
    works = [reply for number in range(TOOL_CALLS) for reply in _tool_then_answer(number)]
    scripts = {"quick": [stream(f"Answer {number}.") for number in range(QUICK_ANSWERS)], "works": works}
    root = tmp_path_factory.mktemp("host")
    with (
        ScriptedProvider(scripts) as provider,
        AgentServer(AgentHome(root, provider, MODELS, SETTINGS)) as it,
    ):
        yield it


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OpenCodeHome]:
    with ScriptedProvider() as unused:
        yield OpenCodeHome(tmp_path_factory.mktemp("client"), unused, MODELS)


def test_H3_run_attach_prints_every_quick_answer(
    opencode_binary: Path, server: AgentServer, client: OpenCodeHome
) -> None:
    ended = [_asked(opencode_binary, server, client, "quick") for _ in range(QUICK_ANSWERS)]
    answers = [f"Answer {number}." for number in range(QUICK_ANSWERS)]
    assert [(each.status, each.answer) for each in ended] == [(0, answer) for answer in answers], ended


def test_H3_run_attach_prints_every_answer_after_a_tool_call(
    opencode_binary: Path, server: AgentServer, client: OpenCodeHome
) -> None:
    ended = [_asked(opencode_binary, server, client, "works") for _ in range(TOOL_CALLS)]
    answers = [f"Done {number}." for number in range(TOOL_CALLS)]
    assert [(each.status, each.answer) for each in ended] == [(0, answer) for answer in answers], ended


def _asked(binary: Path, server: AgentServer, client: OpenCodeHome, model: str) -> Finished:
    return run(binary, client, f"fake/{model}", "--attach", server.url)
