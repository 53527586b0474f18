"""What was said in sessions is kept at their boundaries, also over a kill."""

from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

from tests.loopback.agent_server import AgentHome, AgentServer
from tests.loopback.provider import ScriptedProvider
from tests.loopback.reply import stream

pytestmark = pytest.mark.real_host


@pytest.fixture(scope="module")
def provider() -> Iterator[ScriptedProvider]:
    with ScriptedProvider({"answers": [stream("The answer.")]}) as provider:
        yield provider


@pytest.fixture
def digests(tmp_path: Path) -> Path:
    return tmp_path / "digests"


@pytest.fixture
def home(tmp_path: Path, provider: ScriptedProvider, digests: Path) -> AgentHome:
    return AgentHome(tmp_path, provider, {"fake": ["answers"]}, f'[memory]\ndigests = "{digests}"\n')


def complete_a_turn(server: AgentServer, session: str) -> None:
    position = server.events.position
    server.prompt(session, "Who answers?", "fake/answers")
    server.wait_for_answer(session, "The answer.", since=position)


def test_a_provider_that_fails_is_told_of_and_asked_again(tmp_path: Path, provider: ScriptedProvider) -> None:
    taken = tmp_path / "taken"
    taken.write_text("a file where the folder should be")
    home = AgentHome(tmp_path, provider, {"fake": ["answers"]}, f'[memory]\ndigests = "{taken}"\n')
    with AgentServer(home) as server:
        session = server.create_session()
        complete_a_turn(server, session)
        httpx2.post(f"{server.url}/session", json={"previousID": session}).raise_for_status()
        server.stop()

    with AgentServer(home) as server:
        memory = httpx2.get(f"{server.url}/session/{session}/memory").json()

    (segment,) = memory["segments"]
    assert (memory["turns"], memory["committed"]) == (1, 0)
    assert (segment["start"], segment["end"]) == (1, 1)
    assert segment["attempts"] >= 1
    assert "session-digests" in segment["last_error"]


def test_an_orderly_end_commits_what_there_is(home: AgentHome, digests: Path) -> None:
    with AgentServer(home) as server:
        session = server.create_session()
        complete_a_turn(server, session)
        assert not digests.exists()

        assert server.stop() == 0

    text = (digests / f"{session}.md").read_text()
    assert "Who answers?" in text
    assert "The answer." in text


def test_report_E24_a_kill_loses_no_memory(home: AgentHome, digests: Path) -> None:
    with AgentServer(home) as server:
        session = server.create_session()
        complete_a_turn(server, session)
        server.kill()
    assert not digests.exists()

    with AgentServer(home) as server:
        assert server.stop() == 0

    assert "The answer." in (digests / f"{session}.md").read_text()


def test_report_E24_a_session_that_is_left_for_another_is_committed(home: AgentHome, digests: Path) -> None:
    with AgentServer(home) as server:
        session = server.create_session()
        complete_a_turn(server, session)
        # An orderly end waits for what is under way in the background.
        httpx2.post(f"{server.url}/session", json={"previousID": session}).raise_for_status()
        server.stop()

    assert [file.name for file in digests.iterdir()] == [f"{session}.md"]
