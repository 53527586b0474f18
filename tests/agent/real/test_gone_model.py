"""The model of a session is taken out of the settings."""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.loopback.agent_server import AgentHome, AgentServer
from tests.loopback.event_log import Raw
from tests.loopback.provider import ScriptedProvider
from tests.loopback.reply import status, stream

pytestmark = pytest.mark.real_host

SETTINGS: Final = """
[fallback]
fallback_models = ["spare/second"]

[serve]
model = "spare/first"
"""
GONE: Final = {"providerID": "of-old", "modelID": "old"}


@pytest.fixture
def provider() -> Iterator[ScriptedProvider]:
    scripts = {name: [stream(f"Answer of the {name}.")] for name in ("old", "first", "second")}
    with ScriptedProvider(scripts) as provider:
        yield provider


@pytest.fixture
def home(tmp_path: Path, provider: ScriptedProvider) -> AgentHome:
    return AgentHome(tmp_path, provider, {"spare": ["first", "second"], "of-old": ["old"]}, SETTINGS)


def take_out(home: AgentHome) -> None:
    kept, _, _ = home.settings_file.read_text().partition("[providers.of-old]")
    home.settings_file.write_text(kept)


def ask(server: AgentServer, session: str, answer: str, model: str | None = None) -> tuple[Raw, list[str]]:
    """Hand a prompt in; return its answer's ``info``, and what was said of models that are gone."""
    position = server.events.position
    server.prompt(session, "Who answers?", model)
    server.wait_for_answer(session, answer, since=position)
    said = [toast["message"] for toast in server.events.toasts(position) if toast["title"] == "Model gone"]
    info: Raw = server.messages(session)[-1]["info"]
    return info, said


def test_a_session_whose_model_is_gone_says_so_once_and_goes_on_as_a_new_one_in_every_process(
    home: AgentHome, provider: ScriptedProvider
) -> None:
    with AgentServer(home) as server:
        session = server.create_session()
        ask(server, session, "Answer of the old.", "of-old/old")
    take_out(home)

    with AgentServer(home) as server:
        answers = [ask(server, session, "Answer of the first.") for _ in range(2)]
    with AgentServer(home) as server:
        answers.append(ask(server, session, "Answer of the first."))

    notes = [info.get("fallbacks", []) for info, _ in answers]
    assert [[(note["failed"], note["kind"]) for note in each] for each in notes] == [
        [(GONE, "model_not_found")],
        [],
        [],
    ]
    assert [said for _, said in answers] == [
        ["of-old/old is not in [providers] any more. The session goes on with spare/first."],
        [],
        [],
    ]
    assert [request.model for request in provider.requests(session=session)] == ["old"] + ["first"] * 3


def test_so_does_one_whose_model_has_failed_before_it_is_taken_out(
    home: AgentHome, provider: ScriptedProvider
) -> None:
    provider.script("old", status(429, headers={"retry-after": "3600"}))
    with AgentServer(home) as server:
        session = server.create_session()
        ask(server, session, "Answer of the second.", "of-old/old")
        position = server.events.position
        take_out(home)
        server.events.wait_for(
            lambda event: event["properties"].get("message") == "Settings in force.", since=position
        )

        answers = [ask(server, session, "Answer of the first.") for _ in range(2)]

    assert [len(said) for _, said in answers] == [1, 0]
    asked = [request.model for request in provider.requests(session=session)]
    assert asked == ["old", "second", "first", "first"]
