"""The first turn of a real OpenCode, in which it loads its tools for seconds before it asks a model."""

from typing import Final

import pytest

from tests.loopback.opencode_home import CATALOG, OpenCodeHome, provider_each, ref
from tests.loopback.opencode_server import OpenCodeServer
from tests.loopback.provider import ScriptedProvider
from tests.loopback.reply import hang_before_headers, stream
from tests.opencode.real.conftest import BeginTurn, StartServer

pytestmark = pytest.mark.real_host

# Shorter than the host takes to show that it will ask the model at all.
SETTINGS: Final = """
[fallback]
first_token_timeout = "10ms"
fallback_models = ["of-fallback/fallback"]

[models."of-fallback/fallback"]
first_token_timeout = "90s"
"""


@pytest.fixture(scope="module")
def server(start_server: StartServer, provider: ScriptedProvider) -> OpenCodeServer:
    provider.script("hang", hang_before_headers())
    provider.script("fallback", stream("Answer of the ", "fallback."))

    def with_all_models(home: OpenCodeHome) -> None:
        del home.environment[CATALOG]

    return start_server(
        models=provider_each(("hang", "fallback")), settings=SETTINGS, prepare=with_all_models
    )


def test_a_host_still_loading_is_not_aborted(begin: BeginTurn) -> None:
    # Aborted before it shows the answer's message, OpenCode 1.18.33 never runs a turn again.
    turn = begin(ref("hang")).wait_for_switch("Answer of the fallback.")

    assert turn.asked()[-1] == "fallback"
