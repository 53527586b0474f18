"""Many tabs before one host: a browser opens six connections to it, and every stream of events takes one."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect

from tests.browser.looking import Look
from tests.loopback.agent_server import AgentServer
from tests.loopback.provider import ScriptedProvider
from tests.loopback.reply import Gate, stream

pytestmark = pytest.mark.thorough

HIDE = """(isHidden) => {
    Object.defineProperty(document, 'hidden', { configurable: true, get: () => isHidden });
    document.dispatchEvent(new Event('visibilitychange'));
}"""
"""Playwright has every page believe that it is looked at; this says what a browser says."""


class Tab(Look):
    """A tab, with the number of streams that it has open."""

    def __init__(self, page: Page, url: str) -> None:
        super().__init__(page, url)
        self.streams = 0
        page.set_default_timeout(10_000)
        page.on("request", lambda request: self._count(request.url, 1))
        page.on("requestfailed", lambda request: self._count(request.url, -1))
        page.on("requestfinished", lambda request: self._count(request.url, -1))

    def hide(self) -> None:
        self.page.evaluate(HIDE, True)  # noqa: FBT003 -- an argument of JavaScript

    def show(self) -> None:
        self.page.evaluate(HIDE, False)  # noqa: FBT003 -- an argument of JavaScript

    def wait_for_streams(self, count: int) -> None:
        for _ in range(200):
            if self.streams == count:
                return
            self.page.wait_for_timeout(25)
        raise AssertionError(f"{self.streams} streams are open, not {count}")

    def _count(self, url: str, change: int) -> None:
        if url.endswith("/event"):
            self.streams += change


@pytest.fixture
def tabs(page: Page, server: AgentServer, request: pytest.FixtureRequest) -> Iterator[list[Tab]]:
    """So many tabs, opened one after the other; the last is looked at."""
    pages = [page, *(page.context.new_page() for _ in range(request.param - 1))]
    tabs = [Tab(each, server.url) for each in pages]
    session = server.create_session("Of all tabs")
    for before, tab in zip([None, *tabs], tabs, strict=False):
        if before is not None:
            before.hide()
        tab.open(session)
        tab.wait_for_streams(1)
    yield tabs
    for tab in tabs:
        assert tab.complaints == []


@pytest.mark.parametrize("tabs", [8], indirect=True)
def test_with_eight_tabs_the_one_that_is_looked_at_works_and_those_behind_rest(
    tabs: list[Tab], provider: ScriptedProvider
) -> None:
    gate = Gate()
    provider.script("answers", stream("Half of it", gate, " and the rest."))
    *behind, shown = tabs
    for tab, count in zip(behind, [1, 0, 0, 0, 0, 0, 0], strict=True):
        tab.wait_for_streams(count)

    shown.say("What is it?")

    shown.wait_for_text("Half of it")
    expect(behind[0].page).to_have_title("Working: Of all tabs")
    expect(behind[1].page).to_have_title("Of all tabs")
    gate.open()
    shown.wait_for_text("Half of it and the rest.")
    expect(behind[0].page).to_have_title("Of all tabs")
    assert behind[1].messages.count() == 0


@pytest.mark.parametrize("tabs", [3], indirect=True)
def test_a_tab_that_is_shown_again_has_missed_nothing_and_shows_nothing_twice(
    tabs: list[Tab], provider: ScriptedProvider
) -> None:
    provider.script("answers", stream("The answer."))
    *_, again, shown = tabs
    again.wait_for_streams(0)
    shown.say("Said meanwhile")
    shown.wait_for_text("The answer.")
    expect(shown.stop).to_be_hidden()

    shown.hide()
    again.show()

    again.wait_for_text("The answer.")
    again.wait_for_streams(1)
    assert again.ids() == shown.ids()
    expect(again.page.locator("#connection")).to_be_hidden()
