"""One OpenCode, several project folders: each has its own instance of the plugin, for its own failures."""

from pathlib import Path
from typing import Final

import pytest

from fallback_plugin.model_ref import ModelRef
from fallback_plugin.opencode.http_client import connect
from fallback_plugin.wire.prompt import Prompt
from tests.loopback.opencode_home import provider_each
from tests.loopback.opencode_server import OpenCodeServer
from tests.loopback.provider import ScriptedProvider
from tests.loopback.reply import status, stream
from tests.opencode.real.conftest import StartServer

pytestmark = [pytest.mark.real_host, pytest.mark.anyio]

# Nothing cools, so that the second folder's turn begins with the failing model as well.
SETTINGS: Final = '[fallback]\ncooldown = 0\nfallback_models = ["of-fallback/fallback"]\n'
LIMITED: Final = ModelRef("of-limited", "limited")


@pytest.fixture(scope="module")
def server(start_server: StartServer, provider: ScriptedProvider) -> OpenCodeServer:
    provider.script("limited", status(429))
    provider.script("fallback", stream("Answer of the ", "fallback."))
    return start_server(models=provider_each(("limited", "fallback")), settings=SETTINGS)


async def answered_in(url: str, directory: Path) -> str:
    """Run one failing turn in a folder and return its session once the fallback has answered."""
    async with connect(url, directory=str(directory)) as client:
        session = await client.create_session(title="A test")
        async with client.events() as events:
            prompt = Prompt(model=LIMITED, parts=({"type": "text", "text": "Who answers?"},))
            await client.prompt(session.id, prompt)
            async for event in events:
                info = event.get("properties", {}).get("info", {})
                if info.get("modelID") == "fallback" and info.get("finish") == "stop":
                    return session.id
    raise AssertionError("the stream of events ended")


async def test_a_failure_in_each_folder_is_answered_there(
    server: OpenCodeServer, provider: ScriptedProvider, tmp_path: Path
) -> None:
    for name in ("one", "two"):
        folder = tmp_path / name
        folder.mkdir()
        session = await answered_in(server.url, folder)
        assert [request.model for request in provider.requests(session=session)] == ["limited", "fallback"]
    assert len(server.python_children()) == 3  # the folder the server was started in has one as well
