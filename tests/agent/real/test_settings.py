"""Settings in our own host: keys from the environment, an agent's model, rules, places, a restart."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from tests.health.redis_server import RedisServer
from tests.loopback.agent_server import AgentHome, AgentServer
from tests.loopback.provider import ScriptedProvider
from tests.loopback.reply import hang, status, stream

pytestmark = pytest.mark.real_host

KEY: Final = "a-key-of-the-provider"
PLUGIN: Final = """
from pathlib import Path

from fallback_plugin import hookimpl

Path(__file__).with_suffix(".imported").touch()


@hookimpl
def session_created():
    pass
"""


@pytest.fixture(scope="module")
def redis(redis_binary: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    server = RedisServer(redis_binary, tmp_path_factory.mktemp("redis"))
    server.start()
    yield server
    server.kill()


@pytest.fixture(scope="module")
def provider() -> Iterator[ScriptedProvider]:
    scripts = {
        "answers": [stream("The answer.")],
        "keyed": [stream("The answer.")],
        "of-plan": [stream("The answer of the plan's model.")],
        "bad-key": [status(401)],
        "unlogged": [status(401)],
        "worded": [status(400, "The parcel is late: come back")],
        "sticky": [status(401), stream("Its own answer.")],
        "stand-in": [stream("The answer of the stand-in.")],
        "flows": [hang("Half ")],
    }
    with ScriptedProvider(scripts) as provider:
        yield provider


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("places")


@pytest.fixture(scope="module")
def server(
    tmp_path_factory: pytest.TempPathFactory, provider: ScriptedProvider, folder: Path, redis: RedisServer
) -> Iterator[AgentServer]:
    for name in ("blocked", "loaded"):
        (folder / f"{name}.py").write_text(PLUGIN)
    settings = f"""
[fallback]
fallback_models = ["fake/stand-in"]
sticky = true

[[fallback.rules]]
pattern = "PARCEL .* late"
kind = "quota"
scope = "model"

[agents.Plan]
model = "fake/of-plan"

[serve]
model = "fake/answers"

[providers.with-a-key]
base_url = "{provider.url}"
api_key_env = "THE_KEY"
models = ["keyed"]

[providers.without-its-key]
base_url = "{provider.url}"
api_key_env = "NO_SUCH_KEY"
models = ["keyed"]

[health]
file = "{folder / "health.sqlite3"}"
url_env = "WHERE_HEALTH_IS"

[log]
level = "warning"

[plugins]
dirs = ["{folder}"]
"""
    models = {
        "fake": ["answers", "of-plan", "worded", "stand-in"],
        "of-bad-key": ["bad-key"],
        "of-sticky": ["sticky"],
        "of-unlogged": ["unlogged"],
    }
    home = AgentHome(tmp_path_factory.mktemp("host"), provider, models, settings)
    variables = {"THE_KEY": KEY, "WHERE_HEALTH_IS": redis.url, "FALLBACK_PLUGIN_BLOCK": "Blocked"}
    home.environment.update(variables)
    with AgentServer(home) as server:
        yield server


def models_of(server: AgentServer, session: str) -> list[str]:
    """Return the models that a session's answers name."""
    return [
        each["info"]["modelID"] for each in server.messages(session) if each["info"]["role"] == "assistant"
    ]


def command(server: AgentServer, *arguments: str, **variables: str) -> str:
    """Run a command of ours in the server's home."""
    done = subprocess.run(
        [sys.executable, "-m", "fallback_plugin", *arguments],
        env=server.home.environment | variables,
        cwd=server.home.directory,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout


def closed(server: AgentServer, **variables: str) -> dict[str, dict[str, Any]]:
    """Return what is closed, by its provider and name, as a process of ours sees it."""
    entries = json.loads(command(server, "health", "--json", **variables))
    return {"/".join(filter(None, (entry["provider"], entry["name"]))): entry for entry in entries}


def test_P8_a_key_is_read_from_the_variable_that_its_provider_names(
    server: AgentServer, provider: ScriptedProvider
) -> None:
    session = server.create_session()

    server.answer(session, "Who answers?", "with-a-key/keyed")

    (request,) = provider.requests("keyed", session=session)
    assert request.headers["authorization"] == f"Bearer {KEY}"
    assert KEY not in server.home.logs()


def test_P8_without_its_key_a_model_is_left_for_the_next_one(
    server: AgentServer, provider: ScriptedProvider
) -> None:
    session = server.create_session()

    answer = server.answer(session, "Who answers?", "without-its-key/keyed")

    assert answer["info"]["modelID"] == "stand-in"
    assert provider.requests("keyed", session=session) == []
    (note,) = answer["info"]["fallbacks"]
    assert "NO_SUCH_KEY" in note["message"]


def test_P8_a_prompt_that_names_no_model_goes_to_that_of_serve(server: AgentServer) -> None:
    session = server.create_session()

    server.answer(session, "Who answers?")

    assert models_of(server, session) == ["answers"]


def test_P8_a_session_that_changes_to_an_agent_goes_on_with_the_agents_model(server: AgentServer) -> None:
    session = server.create_session()

    server.answer(session, "Who answers?")
    server.answer(session, "And as plan?", agent="plan")
    server.answer(session, "And this one?", "fake/answers")
    server.answer(session, "And after it?")

    assert models_of(server, session) == ["answers", "of-plan", "answers", "answers"]


def test_P8_a_rule_of_the_user_says_what_a_providers_own_words_mean(server: AgentServer) -> None:
    session = server.create_session()

    server.answer(session, "Who answers?", "fake/worded")

    assert models_of(server, session) == ["stand-in"]
    entry = closed(server)["fake/worded"]
    assert (entry["reason"], entry["scope"]) == ("quota", "model")


def test_P8_a_sticky_session_stays_on_its_fallback_once_the_first_model_is_open(server: AgentServer) -> None:
    session = server.create_session()
    server.answer(session, "Who answers?", "of-sticky/sticky")
    command(server, "health", "clear", "of-sticky")

    server.answer(session, "And now?", "of-sticky/sticky")

    assert models_of(server, session) == ["stand-in", "stand-in"]


def test_P8_health_is_at_the_server_that_a_variable_names_and_in_the_file(
    server: AgentServer, folder: Path
) -> None:
    server.answer(server.create_session(), "Who answers?", "of-bad-key/bad-key")

    assert (folder / "health.sqlite3").is_file()
    of_another_machine = str(folder / "of-another-machine.sqlite3")
    assert "of-bad-key" in closed(server, FALLBACK_PLUGIN__HEALTH__FILE=of_another_machine)


def test_P8_a_blocked_plugin_is_not_even_imported(server: AgentServer, folder: Path) -> None:
    server.create_session()

    assert [file.stem for file in folder.glob("*.imported")] == ["loaded"]


def test_P8_the_level_of_the_log_is_changed_while_the_host_runs(server: AgentServer) -> None:
    assert " INFO " not in server.home.output_file.read_text()
    settings, began = server.home.settings_file.read_text(), server.events.position

    server.home.settings_file.write_text(settings.replace('"warning"', '"info"'))
    server.events.wait_for_toast("info", since=began)
    server.answer(server.create_session(), "Who answers?", "of-unlogged/unlogged")

    assert " INFO " in server.home.output_file.read_text()
    server.home.settings_file.write_text(settings)
    server.events.wait_for_toast("info", since=server.events.position)


def test_P8_with_cancel_what_waited_is_ended_at_a_restart_and_its_words_stay(
    tmp_path: Path, provider: ScriptedProvider
) -> None:
    settings = '[serve]\non_restart = "cancel"\n'
    home = AgentHome(tmp_path, provider, {"fake": ["flows", "answers"]}, settings)
    with AgentServer(home) as server:
        session, began = server.create_session(), server.events.position
        server.prompt(session, "Who answers?", "fake/flows")
        server.events.wait_for(lambda event: event["type"] == "message.part.delta", since=began)
        server.prompt(session, "And then?", "fake/answers")
        server.kill()

    with AgentServer(home) as server:
        assert not server.is_busy(session)
        texts = [
            part["text"]
            for message in server.messages(session)
            for part in message["parts"]
            if part["type"] == "text"
        ]
    assert texts == ["Who answers?", "Half ", "And then?"]
