"""A session of ten thousand messages: it opens like a short one, and the page never holds much of it."""

from collections.abc import Iterator

import pytest

from tests.browser.conftest import MODELS, SETTINGS
from tests.browser.looking import Look
from tests.browser.seeding import seeded
from tests.loopback.agent_server import AgentHome, AgentServer
from tests.loopback.provider import ScriptedProvider

pytestmark = pytest.mark.thorough


MOST_ON_THE_PAGE = 200
LARGEST_ANSWER = 100_000
"""Bytes of a page of history: 40 messages of this session, some with a picture."""

SCROLL = """async ({ pixels, count }) => {
    const box = document.querySelector('.transcript');
    const seen = new Set();
    let most = 0;
    while (seen.size < count) {
        box.scrollTop -= pixels;
        await new Promise(requestAnimationFrame);
        const ids = [...document.querySelectorAll('.message')].map((each) => each.dataset.id);
        if (new Set(ids).size !== ids.length) throw new Error('twice');
        most = Math.max(most, ids.length);
        ids.forEach((id) => seen.add(id));
    }
    return most;
}"""
"""How long frames take is measured by `bench/long_session.py`: it decides no test."""


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory, provider: ScriptedProvider) -> AgentHome:
    return AgentHome(tmp_path_factory.mktemp("host"), provider, MODELS, SETTINGS)


@pytest.fixture(scope="module")
def session(home: AgentHome) -> str:
    return seeded(home.data, {"long": 10_000})["long"]


@pytest.fixture(scope="module")
def server(home: AgentHome, session: str) -> Iterator[AgentServer]:
    assert session
    with AgentServer(home) as server:
        yield server


def heap_mb(look: Look) -> float:
    used: float = look.page.evaluate("() => performance.memory.usedJSHeapSize / 1e6")
    return used


def test_it_opens_and_jumps_to_its_start_with_a_page_each(look: Look, session: str) -> None:
    sizes = []
    look.page.on("response", lambda each: sizes.append(len(each.body())) if "/message?" in each.url else None)
    look.open(session)
    look.messages.last.wait_for()

    look.page.get_by_role("button", name="Start").click()
    look.page.locator("[data-id='msg_00000']").wait_for()

    assert look.ids() == [f"msg_{number:05}" for number in range(40)]
    assert len(sizes) == 2
    assert max(sizes) < LARGEST_ANSWER


def test_two_thousand_messages_are_scrolled_through(look: Look, session: str) -> None:
    look.open(session)
    look.messages.last.wait_for()
    before = heap_mb(look)

    most = look.page.evaluate(SCROLL, {"pixels": 900, "count": 2000})

    assert most <= MOST_ON_THE_PAGE
    assert heap_mb(look) - before < 60
