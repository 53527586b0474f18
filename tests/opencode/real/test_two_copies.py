"""Two copies of the plugin in one OpenCode, the user's and the project's: a failure is answered once."""

from typing import Final

import pytest

from tests.loopback.opencode_home import OpenCodeHome, provider_each, ref
from tests.loopback.opencode_server import OpenCodeServer
from tests.loopback.provider import ScriptedProvider
from tests.loopback.reply import Reply, status, stream
from tests.loopback.turn import PROMPT
from tests.opencode.real.conftest import BeginTurn, StartServer

pytestmark = pytest.mark.real_host

SETTINGS: Final = '[fallback]\nfallback_models = ["of-fallback-a/fallback-a", "of-fallback-b/fallback-b"]\n'
FAILING: Final[dict[str, Reply]] = {"limited": status(429), "bad-key": status(401), "empty": stream()}


@pytest.fixture(scope="module")
def server(start_server: StartServer, provider: ScriptedProvider) -> OpenCodeServer:
    scripts = {**FAILING, "fallback-a": stream("Answer ", "of a."), "fallback-b": stream("Answer ", "of b.")}
    for model, reply in scripts.items():
        provider.script(model, reply)

    def install_again(home: OpenCodeHome) -> None:
        home.install_plugin(SETTINGS, scope="project")

    return start_server(models=provider_each(scripts), settings=SETTINGS, prepare=install_again)


@pytest.mark.parametrize("primary", FAILING)
def test_one_of_two_copies_answers_a_failure(begin: BeginTurn, primary: str) -> None:
    turn = begin(ref(primary)).wait_for_switch("Answer of a.")

    assert turn.is_quiet(1.0)
    assert turn.asked() == [primary, "fallback-a"]
    assert turn.user_texts() == [[PROMPT]]
    assert turn.said() == ["warning", "success"]


def test_both_copies_run(server: OpenCodeServer) -> None:
    assert len(server.python_children()) == 2
