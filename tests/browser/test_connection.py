"""The host is away, comes back, or is another one by then; the page goes on by itself."""

from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Page, Route, expect

from tests.browser.conftest import MODELS, SETTINGS
from tests.browser.looking import Look
from tests.loopback.agent_server import AgentHome, AgentServer
from tests.loopback.provider import ScriptedProvider
from tests.loopback.reply import Gate, stream

pytestmark = pytest.mark.thorough


@pytest.fixture
def gate(provider: ScriptedProvider) -> Gate:
    gate = Gate()
    provider.script("answers", stream("Half of it", gate, " and the rest."), stream("The next answer."))
    return gate


def frames(*kinds: str) -> str:
    return "".join(f'data: {{"type": "{kind}", "properties": {{}}}}\n\n' for kind in kinds)


def wait_until(page: Page, condition: Callable[[], bool]) -> None:
    for _ in range(200):
        if condition():
            return
        page.wait_for_timeout(25)
    pytest.fail("not within 5 s")


def test_offline_and_back_nothing_is_missed_and_nothing_twice(
    look: Look, server: AgentServer, gate: Gate
) -> None:
    session = server.create_session()
    look.open(session)
    look.say("What is it?")
    look.wait_for_text("Half of it")

    look.page.context.set_offline(True)
    expect(look.page.locator("#connection")).to_be_visible()
    look.draft.fill("Written meanwhile")
    gate.open()
    server.wait_for_answer(session, "Half of it and the rest.")
    server.prompt(session, "From elsewhere")
    server.wait_for_answer(session, "The next answer.")
    look.page.context.set_offline(False)

    look.wait_for_text("The next answer.")
    expect(look.page.locator("#connection")).to_be_hidden()
    expect(look.page.locator(".message.assistant .prose")).to_have_text(
        ["Half of it and the rest.", "The next answer."]
    )
    expect(look.messages).to_have_count(4)
    expect(look.stop).to_be_hidden()
    expect(look.draft).to_have_value("Written meanwhile")


def test_events_that_are_lost_are_made_up_for(
    look: Look, server: AgentServer, provider: ScriptedProvider
) -> None:
    """The host no longer has the events since the last one the page heard of."""
    provider.script("answers", stream("The answer."))
    session = server.create_session()
    server.prompt(session, "Before")
    server.wait_for_answer(session, "The answer.")
    events: list[Route] = []
    look.page.route("**/event", lambda route: events.append(route))  # noqa: PLW0108 -- no built-in is taken
    look.page.goto(f"{look.url}/#/session/{session}")
    wait_until(look.page, lambda: len(events) == 1)
    events[0].fulfill(status=200, content_type="text/event-stream", body=frames("server.connected"))
    expect(look.messages).to_have_count(2)
    wait_until(look.page, lambda: len(events) == 2)
    position = server.events.position
    server.prompt(session, "Meanwhile")
    server.wait_for_answer(session, "The answer.", since=position)

    events[1].fulfill(
        status=200, content_type="text/event-stream", body=frames("server.connected", "server.events.lost")
    )

    expect(look.messages).to_have_count(4)
    assert len(set(look.ids())) == 4


def test_a_host_that_is_killed_in_mid_answer_and_started_again(
    page: Page, provider: ScriptedProvider, tmp_path: Path, gate: Gate
) -> None:
    home = AgentHome(tmp_path, provider, MODELS, SETTINGS)
    with AgentServer(home) as first:
        port, session = first.port, first.create_session()
        look = Look(page, first.url)
        look.open(session)
        look.say("What is it?")
        look.wait_for_text("Half of it")
        for text in ("Waited", "Waited too", "Waited as well"):
            look.say(text)
            expect(look.draft).to_have_value("")
        first.kill()
    expect(page.locator("#connection")).to_be_visible()
    look.draft.fill("Written meanwhile")
    look.draft.press("Enter")
    expect(page.locator(".toast").first).to_contain_text("cannot be reached")
    expect(look.draft).to_have_value("Written meanwhile")

    with AgentServer(home, port=port):
        expect(page.locator("#connection")).to_be_hidden(timeout=15_000)
        expect(page.locator(".stopped")).to_have_text("The host ended while this was being answered")
        held = page.locator(".waiting .held")
        expect(held).to_have_count(3)
        held.nth(2).get_by_role("button", name="Edit").click()
        expect(look.draft).to_have_value("Written meanwhile\n\nWaited as well")
        expect(held).to_have_count(2)
        held.nth(1).get_by_role("button", name="Discard").click()
        expect(held).to_have_count(1)
        held.nth(0).get_by_role("button", name="Send").click()
        look.wait_for_text("The next answer.")
        expect(held).to_have_count(0)
        expect(look.stop).to_be_hidden()
        assert len(set(look.ids())) == len(look.ids())
    assert look.complaints == []
    gate.open()
