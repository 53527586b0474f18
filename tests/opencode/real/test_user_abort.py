"""A person's stop is final in the real OpenCode: no prompt is sent until the next message."""

from typing import Final

import pytest

from tests.loopback.opencode_server import OpenCodeServer
from tests.loopback.provider import ScriptedProvider
from tests.loopback.reply import Gate, status, stream
from tests.opencode.real.conftest import StartServer

pytestmark = pytest.mark.real_host

SETTINGS: Final = '[fallback]\nfallback_models = ["fakeb/slow", "fakeb/next"]\n'
WINDOW_S: Final = 10.0


@pytest.fixture(scope="module")
def server(start_server: StartServer, provider: ScriptedProvider) -> OpenCodeServer:
    provider.script("429-stop-later", status(429))
    provider.script("429-stop-now", status(429))
    provider.script("401-stop-later", status(401))
    provider.script("slow", stream("First ", Gate(), "words."))
    provider.script("next", stream("Nobody asked."))
    return start_server(
        models={"fake": ["429-stop-later", "429-stop-now", "401-stop-later"], "fakeb": ["slow", "next"]},
        settings=SETTINGS,
    )


@pytest.mark.parametrize("primary", ["429-stop-later", "401-stop-later"])
def test_a_stop_while_the_fallback_streams_is_final(
    server: OpenCodeServer, provider: ScriptedProvider, primary: str
) -> None:
    began = server.events.position
    session = server.create_session()
    server.prompt(session, "Who answers?", f"fake/{primary}")
    server.events.wait_for(
        lambda event: (
            event["type"] == "message.part.delta"
            and event["properties"]["sessionID"] == session
            and event["properties"]["delta"] == "First "
        ),
        since=began,
    )

    server.abort(session)

    assert provider.is_quiet(session, after=len(provider.requests(session=session)), window_s=WINDOW_S)
    assert not server.is_busy(session)


def test_a_stop_at_the_moment_of_switching_is_final(
    server: OpenCodeServer, provider: ScriptedProvider
) -> None:
    began = server.events.position
    session = server.create_session()
    server.prompt(session, "Who answers?", "fake/429-stop-now")
    server.events.wait_for(
        lambda event: (
            event["type"] == "session.status"
            and event["properties"]["sessionID"] == session
            and event["properties"]["status"]["type"] == "retry"
        ),
        since=began,
    )

    server.abort(session)

    assert provider.is_quiet(session, after=len(provider.requests(session=session)), window_s=WINDOW_S)
    assert not server.is_busy(session)
