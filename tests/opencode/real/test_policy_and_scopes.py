"""What a failure closes, what a policy says and what is explained afterwards, in the real OpenCode."""

import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from tests.loopback.opencode_home import provider_each, ref
from tests.loopback.opencode_server import OpenCodeServer
from tests.loopback.provider import ScriptedProvider
from tests.loopback.reply import status, stream
from tests.loopback.turn import PROMPT
from tests.opencode.real.conftest import BeginTurn, StartServer

pytestmark = pytest.mark.real_host

COMMAND: Final = Path(sys.executable).with_name("fallback-plugin")
SETTLED_S: Final = 0.6
SETTINGS: Final = f"""
[fallback]
fallback_models = ["of-shared/sibling", "{ref("fallback")}"]

[providers.of-flaky.policy]
auth = {{ retry = 1, then = "fallback" }}
"""


@pytest.fixture(scope="module")
def server(start_server: StartServer, provider: ScriptedProvider) -> OpenCodeServer:
    provider.script("bad-key", status(401))
    provider.script("sibling", stream("Answer of the ", "sibling."))
    provider.script("crowded", status(429, "High concurrency usage of this API"), stream("Room ", "again."))
    provider.script("flaky", status(401), stream("Well ", "again."))
    provider.script("fallback", stream("Answer of the ", "fallback."))
    server = start_server(
        models={"of-shared": ["bad-key", "sibling"], **provider_each(["crowded", "flaky", "fallback"])},
        settings=SETTINGS,
    )
    server.warm_up("of-shared")
    return server


def test_too_much_at_once_is_waited_for_on_the_same_model(begin: BeginTurn) -> None:
    turn = begin(ref("crowded")).wait_for_answer("Room again.")

    assert turn.is_quiet(SETTLED_S)
    assert turn.asked() == ["crowded", "crowded"]
    assert turn.toasts("crowded") == []


def test_a_retry_that_the_person_wants_runs_the_same_turn_on_the_same_model(begin: BeginTurn) -> None:
    turn = begin(ref("flaky")).wait_for_answer("Well again.")

    assert turn.is_quiet(SETTLED_S)
    assert turn.asked() == ["flaky", "flaky"]
    assert turn.user_texts() == [[PROMPT]]
    assert [toast["title"] for toast in turn.toasts("flaky")] == ["Model retry"]


def test_a_refused_key_closes_its_provider_and_it_is_explained(
    begin: BeginTurn, server: OpenCodeServer
) -> None:
    turn = begin("of-shared/bad-key").wait_for_switch("Answer of the fallback.")
    assert turn.asked() == ["bad-key", "fallback"]

    said = subprocess.run(
        [COMMAND, "explain", turn.session],
        env=server.home.environment,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert "of-shared/bad-key → of-fallback/fallback" in said
    assert "passed over: of-shared/sibling: closed with the model that failed" in said
    assert "switched (of-fallback/fallback)" in said
    shown = subprocess.run(
        [COMMAND, "health"], env=server.home.environment, capture_output=True, text=True, check=True
    ).stdout
    assert "of-shared/* (account)" in shown

    # Then a session that begins with another model of that provider keeps away from it as well
    other = begin("of-shared/sibling").wait_for_answer("Answer of the fallback.")
    assert other.asked() == ["fallback"]
