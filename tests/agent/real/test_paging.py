"""The pager over HTTP, on the real OpenCode and on our own host."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final, TypeAlias

import httpx2
import pytest

from fallback_plugin.errors import HostCallError
from fallback_plugin.history import HistoryPager
from fallback_plugin.opencode.pages import pages
from tests.loopback.agent_server import AgentHome, AgentServer
from tests.loopback.opencode_home import OpenCodeHome
from tests.loopback.opencode_server import OpenCodeServer
from tests.loopback.provider import ScriptedProvider

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.anyio, pytest.mark.real_host]

Server: TypeAlias = OpenCodeServer | AgentServer

COUNT: Final = 7
TEXTS: Final = [f"message {number}" for number in range(COUNT)]


@pytest.fixture(scope="module", params=[pytest.param("opencode", marks=pytest.mark.thorough), "our own host"])
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    root = tmp_path_factory.mktemp("host")
    with ScriptedProvider() as provider:
        if request.param == "opencode":
            binary: Path = request.getfixturevalue("opencode_binary")
            with OpenCodeServer(binary, OpenCodeHome(root, provider, {"fake": ["m"]})) as opencode:
                yield opencode
        else:
            with AgentServer(AgentHome(root, provider, {"fake": ["m"]})) as own:
                yield own


def filled(server: Server) -> str:
    """Return a session with messages that nobody answers."""
    session = server.create_session()
    for text in TEXTS:
        body = {
            "parts": [{"type": "text", "text": text}],
            "model": {"providerID": "fake", "modelID": "m"},
            "noReply": True,
        }
        httpx2.post(f"{server.url}/session/{session}/message", json=body, timeout=20).raise_for_status()
    return session


def held(pager: HistoryPager) -> list[str]:
    return [str(message.parts[0]["text"]) for message in pager.messages]


async def test_a_session_is_read_from_its_end_to_its_beginning(server: Server) -> None:
    session = filled(server)
    async with httpx2.AsyncClient(base_url=server.url) as http:
        pager = HistoryPager(pages(http), page_rows=3, window_rows=20)

        assert await pager.open(session) == "applied"
        assert held(pager) == TEXTS[-3:]
        assert await pager.load_older() == "applied"
        assert await pager.load_older() == "applied"

        assert held(pager) == TEXTS
        assert await pager.load_older() == "refused"


async def test_a_page_that_cannot_be_read_is_an_error_and_the_next_try_works(server: Server) -> None:
    session = filled(server)
    async with httpx2.AsyncClient(base_url=server.url) as http:
        pager = HistoryPager(pages(http), page_rows=3, window_rows=20)
        await pager.open(session)
        http.base_url = httpx2.URL("http://127.0.0.1:9")

        assert await pager.load_older() == "failed"
        assert isinstance(pager.error, HostCallError)

        http.base_url = httpx2.URL(server.url)
        assert await pager.load_older() == "applied"
        assert held(pager) == TEXTS[-6:]


async def test_the_start_is_reached_at_once_and_leads_on(server: Server) -> None:
    if isinstance(server, OpenCodeServer):
        pytest.skip("OpenCode 1.18.33 has no pages from the start")
    session = filled(server)
    async with httpx2.AsyncClient(base_url=server.url) as http:
        pager = HistoryPager(pages(http), page_rows=3, window_rows=20)
        await pager.open(session)

        await pager.jump_to_start()
        first = held(pager)
        await pager.load_newer()

        assert first == TEXTS[:3]
        assert held(pager) == TEXTS[:6]
