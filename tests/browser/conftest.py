"""A real Chromium before a real host whose models do what a script says."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

from tests.browser.looking import Look
from tests.conftest import missing
from tests.loopback.agent_server import AgentHome, AgentServer
from tests.loopback.provider import ScriptedProvider
from tests.loopback.reply import stream

LIMIT_S: Final = 60
AXE: Final = Path(__file__).parents[2] / "node_modules" / "axe-core" / "axe.min.js"

SETTINGS: Final = """
[serve]
model = "fake/answers"

[fallback]
fallback_models = ["spare/second", "spare/third"]

[agents.plan]
fallback_models = ["fake/fails", "spare/second"]
"""

MODELS: Final = {"fake": ["answers", "waits", "fails"], "spare": ["second", "third"]}


def pytest_itemcollected(item: pytest.Item) -> None:
    """Give a test of the browser its time limit."""
    if not item.get_closest_marker("timeout"):
        item.add_marker(pytest.mark.timeout(LIMIT_S))


@pytest.fixture(scope="session")
def axe() -> str:
    return (
        AXE.read_text() if AXE.is_file() else missing("axe-core is not installed: scripts/test installs it")
    )


@pytest.fixture(scope="session")
def chromium() -> str:
    found = shutil.which("chromium") or shutil.which("chromium-browser")
    return found or missing("chromium is not installed: the page needs a browser")


@pytest.fixture(scope="module")
def browser(chromium: str) -> Iterator[Browser]:
    # This thread's event loop is the driver's meanwhile: tests with one of their own are in other modules.
    with sync_playwright() as driver:
        # Its sandbox needs rights that a container does not give; it visits nothing but our own page.
        browser = driver.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def provider() -> Iterator[ScriptedProvider]:
    scripts = {"answers": [stream("The answer.")], "second": [stream("From the second.")]}
    with ScriptedProvider(scripts) as provider:
        yield provider


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, provider: ScriptedProvider) -> Iterator[AgentServer]:
    home = AgentHome(tmp_path_factory.mktemp("host"), provider, MODELS, SETTINGS)
    with AgentServer(home) as server:
        yield server


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    with browser.new_context(viewport={"width": 1100, "height": 800}) as context:
        page = context.new_page()
        page.set_default_timeout(10_000)
        yield page


@pytest.fixture
def look(page: Page, server: AgentServer) -> Iterator[Look]:
    """The page of the server, which must have run nothing and complained of nothing when the test ends."""
    look = Look(page, server.url)
    yield look
    assert look.complaints == []
