"""A Python side that dies, is missing or of another version costs the real OpenCode one toast, no more."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from tests.loopback.opencode_home import OpenCodeHome, provider_each, ref
from tests.loopback.opencode_server import OpenCodeServer
from tests.loopback.provider import ScriptedProvider
from tests.loopback.reply import Gate, status, stream
from tests.loopback.turn import Turn
from tests.opencode.real.conftest import StartServer

pytestmark = pytest.mark.real_host

SETTINGS: Final = '[fallback]\nfallback_models = ["fakeb/fallback-a"]\n'
OTHER_VERSION: Final = """\
#!{python}
import json, sys
first = json.loads(sys.stdin.readline())
answer = {{"protocolVersion": 99, "server": {{"name": "fallback-plugin", "version": "99.0.0"}}}}
print(json.dumps({{"jsonrpc": "2.0", "id": first["id"], "result": answer}}), flush=True)
sys.stdin.read()
"""


@pytest.fixture
def start(start_server: StartServer, provider: ScriptedProvider) -> Callable[..., OpenCodeServer]:
    provider.script("ok", stream("All ", "well."))
    provider.script("429-before", status(429))
    provider.script("429-after", status(429))
    provider.script("fallback-a", stream("Answer ", "of a."))

    def start(prepare: Callable[[OpenCodeHome], None] | None = None) -> OpenCodeServer:
        models = {"fake": ["ok", "429-before", "429-after"], "fakeb": ["fallback-a"]}
        return start_server(models=models, settings=SETTINGS, prepare=prepare)

    return start


def prompt_and_wait(server: OpenCodeServer, model: str, answer: str) -> None:
    session = server.create_session()
    server.prompt(session, "Who answers?", f"fake/{model}")
    server.wait_for_answer(session, answer)


def test_a_dead_python_side_is_said_once_and_replaced(start: Callable[..., OpenCodeServer]) -> None:
    server = start()
    prompt_and_wait(server, "429-before", "Answer of a.")
    server.events.wait_for_toast("success")
    died = server.events.position

    server.kill_python_child()

    server.events.wait_for_toast(since=died)
    prompt_and_wait(server, "ok", "All well.")
    assert len(server.events.toasts(died)) == 1
    prompt_and_wait(server, "429-after", "Answer of a.")
    assert [toast for toast in server.events.toasts(died) if "fakeb/" not in toast["message"]] == (
        server.events.toasts(died)[:1]
    )


def test_a_failure_after_a_restart_is_that_of_the_model_asked_now(
    start_server: StartServer, provider: ScriptedProvider
) -> None:
    died = Gate()
    provider.script("refused", status(401))
    provider.script("limited-later", (died, *status(429)))
    provider.script("last", stream("Answer ", "of last."))
    server = start_server(
        models=provider_each(["refused", "limited-later", "last"]),
        settings=f'[fallback]\nfallback_models = ["{ref("limited-later")}", "{ref("last")}"]\n',
    )
    server.warm_up("of-refused")
    turn = Turn.begin(server, provider, ref("refused"))
    provider.wait_for(lambda: bool(provider.requests("limited-later")))
    position = server.events.position

    server.kill_python_child()
    server.events.wait_for_toast(since=position)
    died.open()

    turn.wait_for_switch("Answer of last.")
    assert f"{ref('limited-later')}: rate limited. Trying {ref('last')} …" in turn.toasts()[-2]["message"]
    closed = json.loads(server.home.command("health", "--json"))
    assert {each["reason"] for each in closed if each["provider"] == "of-refused"} == {"auth"}


def test_a_missing_interpreter_is_said_once(start: Callable[..., OpenCodeServer]) -> None:
    def lose_the_interpreter(home: OpenCodeHome) -> None:
        home.use_interpreter(home.directory / "no-such-python")
        home.environment["PATH"] = "/usr/bin:/bin"

    server = start(lose_the_interpreter)

    prompt_and_wait(server, "ok", "All well.")
    prompt_and_wait(server, "ok", "All well.")

    server.events.wait_for_toast()
    (toast,) = server.events.toasts()
    assert "fallback-plugin install opencode" in toast["message"]


def test_another_protocol_version_is_said_once(start: Callable[..., OpenCodeServer], tmp_path: Path) -> None:
    program = tmp_path / "python-of-another-version"
    program.write_text(OTHER_VERSION.format(python=sys.executable))
    program.chmod(0o755)

    server = start(lambda home: home.use_interpreter(program))

    prompt_and_wait(server, "ok", "All well.")
    prompt_and_wait(server, "ok", "All well.")
    server.events.wait_for_toast()
    (toast,) = server.events.toasts()
    assert "fallback-plugin install opencode" in toast["message"]
    assert server.python_child() is None
