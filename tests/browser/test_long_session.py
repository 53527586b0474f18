"""A session of ten thousand messages: it opens like a short one, and the page never holds much of it."""

import time
from collections.abc import Iterator

import pytest

from tests.browser.conftest import MODELS, SETTINGS
from tests.browser.looking import Look
from tests.browser.seeding import seeded
from tests.loopback.agent_server import AgentHome, AgentServer
from tests.loopback.provider import ScriptedProvider

pytestmark = pytest.mark.thorough


MOST_ON_THE_PAGE = 200
SMOOTH_MS = 80.0
"""How long half of the frames may take at most, drawn by a processor that has other things to do."""

FRAMES = """async (pixels) => {
    const box = document.querySelector('.transcript');
    const times = [];
    const seen = new Set();
    let most = 0;
    let last = performance.now();
    const end = last + 25000;
    while (seen.size < 2000 && last < end) {
        box.scrollTop -= pixels;
        await new Promise(requestAnimationFrame);
        const now = performance.now();
        times.push(now - last);
        last = now;
        const ids = [...document.querySelectorAll('.message')].map((each) => each.dataset.id);
        if (new Set(ids).size !== ids.length) throw new Error('twice');
        most = Math.max(most, ids.length);
        ids.forEach((id) => seen.add(id));
    }
    times.sort((one, other) => one - other);
    const at = (share) => times[Math.floor(times.length * share)];
    return { seen: seen.size, most, median_ms: at(0.5), p90_ms: at(0.9), frames: times.length };
}"""


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


def test_it_opens_at_once_and_jumps_to_its_start(look: Look, session: str) -> None:
    begun = time.monotonic()
    look.open(session)
    look.messages.last.wait_for()
    opened_s = time.monotonic() - begun

    look.page.get_by_role("button", name="Start").click()
    look.page.locator("[data-id='msg_00000']").wait_for()

    assert opened_s < 3
    assert look.ids()[0] == "msg_00000"
    assert look.messages.count() <= MOST_ON_THE_PAGE


def test_two_thousand_messages_are_scrolled_through(look: Look, session: str) -> None:
    look.open(session)
    look.messages.last.wait_for()
    before = heap_mb(look)

    found = look.page.evaluate(FRAMES, 900)

    assert found["seen"] >= 2000, found
    assert found["most"] <= MOST_ON_THE_PAGE
    assert found["median_ms"] < SMOOTH_MS, found
    assert heap_mb(look) - before < 60
