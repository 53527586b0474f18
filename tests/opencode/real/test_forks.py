"""A fork in the real OpenCode: its copied history is no turn that the plugin might take over."""

import time
from pathlib import Path
from typing import Final

import httpx2
import pytest

from tests.loopback.opencode_home import OpenCodeHome
from tests.loopback.opencode_server import OpenCodeServer
from tests.loopback.provider import ScriptedProvider
from tests.loopback.reply import status, stream

pytestmark = pytest.mark.real_host

STALL_S: Final = 2
SETTINGS: Final = f"""
[fallback]
fallback_models = ["spare/other"]
first_token_timeout = "{STALL_S}s"
stall_timeout = "{STALL_S}s"
"""


def test_H4_a_fork_that_is_left_alone_is_not_answered_again(opencode_binary: Path, tmp_path: Path) -> None:
    scripts = {"answers": [stream("The answer."), status(429)], "other": [stream("The other answer.")]}
    with ScriptedProvider(scripts) as provider:
        home = OpenCodeHome(tmp_path, provider, {"fake": ["answers"], "spare": ["other"]})
        home.install_plugin(SETTINGS)
        with OpenCodeServer(opencode_binary, home) as server:
            server.warm_up("fake")
            session = server.create_session()
            server.prompt(session, "Who answers?", "fake/answers")
            server.wait_for_answer(session, "The answer.")
            position = server.events.position

            fork = httpx2.post(f"{server.url}/session/{session}/fork", json={}, timeout=20).json()["id"]

            time.sleep(4 * STALL_S)  # the window in which nothing may be sent
            assert server.events.toasts(position) == []
            assert provider.requests("other") == []
            # A failure of a turn in the fork is answered as anywhere.
            server.prompt(fork, "And now?", "fake/answers")
            server.wait_for_answer(fork, "The other answer.", since=position)
