"""The table of vectors and any schedule, C1-C12 and C.4, against the pager as the page in Chromium has it."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

import pytest
from playwright.sync_api import Browser, Page

from tests.history.schedules import schedules
from tests.history.test_vectors import VECTORS
from tests.loopback.agent_server import AgentServer

DRIVER: Final = Path(__file__).parents[2] / "history" / "js" / "driving.mjs"

RUN: Final = """async ({ options, steps }) => {
    const { Driver } = await import('/driving.mjs');
    const page = { ...(await import('/web/history.js')), ...(await import('/web/history-window.js')) };
    const compared = [];
    const driver = new Driver(page, options, (found, expected, name) =>
        compared.push(structuredClone({ name, found, expected })));
    for (const step of steps) await driver.step(step);
    return compared;
}"""


@pytest.fixture(scope="module")
def opened(browser: Browser, server: AgentServer) -> Iterator[Page]:
    """The page, with the driver of the vectors as one more of its own files."""
    with browser.new_context() as context:
        page = context.new_page()
        page.route("**/driving.mjs", lambda route: route.fulfill(path=DRIVER, content_type="text/javascript"))
        page.goto(server.url)
        yield page


def assert_holds(page: Page, options: dict[str, Any], steps: list[dict[str, Any]]) -> None:
    compared = page.evaluate(RUN, {"options": options, "steps": steps})

    assert compared
    for each in compared:
        assert each["found"] == each["expected"], each["name"]


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector["name"].replace(" ", "-"))
def test_a_vector(opened: Page, vector: dict[str, Any]) -> None:
    assert_holds(opened, vector.get("pager", {}), vector["steps"])


@pytest.mark.thorough
@pytest.mark.timeout(600)
def test_any_schedule_shows_what_it_shows_in_python(opened: Page) -> None:
    with ThreadPoolExecutor(1) as beside:  # the browser's driver has this thread's event loop
        made = beside.submit(schedules).result()

    for schedule in made:
        assert_holds(opened, schedule["options"], schedule["steps"])
