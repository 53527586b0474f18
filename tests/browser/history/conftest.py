"""Sessions that are longer than what the page holds."""

from collections.abc import Iterator
from typing import Final

import pytest

from tests.browser.conftest import MODELS, SETTINGS
from tests.browser.history.page_pager import PagePager
from tests.browser.looking import Look
from tests.browser.seeding import seeded
from tests.loopback.agent_server import AgentHome, AgentServer
from tests.loopback.provider import ScriptedProvider

SIZES: Final = {
    "long": 400,
    "other": 100,
    "short": 10,
    **dict.fromkeys(("growing", "losing", "missing", "shrinking", "summarised"), 200),
}
"""Sessions and how many messages they have; those of the last row are each changed by one test."""


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory, provider: ScriptedProvider) -> AgentHome:
    return AgentHome(tmp_path_factory.mktemp("host"), provider, MODELS, SETTINGS)


@pytest.fixture(scope="module")
def sessions(home: AgentHome) -> dict[str, str]:
    return seeded(home.data, SIZES)


@pytest.fixture(scope="module")
def server(home: AgentHome, sessions: dict[str, str]) -> Iterator[AgentServer]:
    assert sessions
    with AgentServer(home) as server:
        yield server


@pytest.fixture
def stubborn_network(look: Look) -> None:
    """Deliver answers also to who has given them up, so that it is the pager that does not let them count."""
    look.page.add_init_script(
        "(() => { const real = fetch; window.fetch = (url, { signal, ...rest }) => real(url, rest); })()"
    )


@pytest.fixture
def pager(look: Look) -> PagePager:
    return PagePager(look)
