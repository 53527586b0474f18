"""Clients that send a prompt over HTTP and wait: they get the answer of the model that gave one at last."""

import json
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

import httpx2
import pytest

from tests.loopback.event_log import folder_header
from tests.loopback.opencode_home import provider_each, ref
from tests.loopback.opencode_server import OpenCodeServer
from tests.loopback.provider import ScriptedProvider
from tests.loopback.reply import Gate, Reply, cut, hang_before_headers, status, stream
from tests.opencode.real.conftest import StartServer

pytestmark = pytest.mark.real_host

FAILURES: Final[Mapping[str, Reply]] = {
    "limited": status(429),
    "refused": status(401),
    "cut": cut("Half an answer, "),
    "empty": stream(),
    "silent": hang_before_headers(),
}
SETTINGS: Final = f"""
[fallback]
fallback_models = ["{ref("fallback")}"]
first_token_timeout = 5
cooldown = 0
switching = "replay"
[agents.alone]
fallback_models = ["{ref("stuck")}"]
[agents.lost]
fallback_models = ["{ref("lost")}"]
"""
LIMIT_S: Final = 60.0


@pytest.fixture(scope="module")
def server(start_server: StartServer, provider: ScriptedProvider) -> OpenCodeServer:
    for name, reply in FAILURES.items():
        provider.script(name, reply)
    provider.script("fine", stream("Fine."))
    provider.script("fallback", stream("Answer ", "of the fallback."))
    provider.script("stuck", stream(Gate(), "Never said."))
    provider.script("lost", status(404))
    return start_server(
        models=provider_each((*FAILURES, "fine", "fallback", "stuck", "lost")),
        settings=SETTINGS,
        config={
            "agent": {name: {"mode": "primary", "prompt": f"You are {name}."} for name in ("alone", "lost")},
            "command": {"who": {"template": "Who answers $ARGUMENTS?"}},
        },
    )


def ask(
    server: OpenCodeServer, session: str, model: str, agent: str = "build", directory: Path | None = None
) -> dict[str, Any]:
    prompt = {
        "agent": agent,
        "model": {"providerID": f"of-{model}", "modelID": model},
        "parts": [{"type": "text", "text": "Who answers?"}],
    }
    return posted(f"{server.url}/session/{session}/message", prompt, directory)


def posted(url: str, body: Mapping[str, Any], directory: Path | None = None) -> dict[str, Any]:
    answer = httpx2.post(url, json=body, headers=folder_header(directory), timeout=LIMIT_S)
    answer.raise_for_status()
    message: dict[str, Any] = answer.json()
    return message


def text_of(message: Mapping[str, Any]) -> str:
    return "".join(part.get("text", "") for part in message["parts"] if part["type"] == "text")


@pytest.mark.parametrize("model", FAILURES)
def test_the_answer_is_the_fallbacks(model: str, server: OpenCodeServer, provider: ScriptedProvider) -> None:
    session = server.create_session()

    message = ask(server, session, model)

    assert text_of(message) == "Answer of the fallback.", json.dumps(message)
    assert message["info"]["modelID"] == "fallback"
    assert "error" not in message["info"]
    asked = [request.model for request in provider.requests(session=session)]
    assert asked[-1] == "fallback"
    assert asked.count("fallback") == 1


def test_the_first_of_a_folder_is_too(server: OpenCodeServer, tmp_path: Path) -> None:
    session = server.create_session(directory=tmp_path)

    assert text_of(ask(server, session, "refused", directory=tmp_path)) == "Answer of the fallback."


def test_a_commands_is_too(server: OpenCodeServer) -> None:
    session = server.create_session()
    command = {"command": "who", "arguments": "now", "model": ref("refused")}

    message = posted(f"{server.url}/session/{session}/command", command)

    assert text_of(message) == "Answer of the fallback.", json.dumps(message)


def test_of_two_that_wait_in_one_session_each_gets_an_answer(server: OpenCodeServer) -> None:
    session = server.create_session()
    with ThreadPoolExecutor(2) as beside:
        waiting = [beside.submit(ask, server, session, "refused") for _ in range(2)]
        answers = [text_of(each.result(LIMIT_S)) for each in waiting]

    assert answers == ["Answer of the fallback."] * 2


def test_where_all_models_fail_the_answer_is_an_error(server: OpenCodeServer) -> None:
    message = ask(server, server.create_session(), "refused", "lost")

    assert message["info"]["error"]["data"]["statusCode"] in {401, 404}


def test_an_answer_that_nothing_failed_in_comes_as_it_is(server: OpenCodeServer) -> None:
    message = ask(server, server.create_session(), "fine")

    assert text_of(message) == "Fine."
    assert message["info"]["finish"] == "stop"


def test_P1_a_stop_ends_the_wait(server: OpenCodeServer, provider: ScriptedProvider) -> None:
    session = server.create_session()
    with ThreadPoolExecutor(1) as beside:
        waiting: Future[dict[str, Any]] = beside.submit(ask, server, session, "refused", "alone")
        provider.wait_for(lambda: bool(provider.requests("stuck", session=session)))
        server.abort(session)
        message = waiting.result(LIMIT_S)

    assert message["info"]["error"]["name"] == "MessageAbortedError"
    assert [request.model for request in provider.requests(session=session)] == ["refused", "stuck"]
