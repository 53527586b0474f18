"""The list C.4 of the contract on the page: what happens while a page of history is under way, or fails."""

from collections.abc import Mapping
from random import Random
from typing import Any, Final

import httpx2
import pytest
from playwright.sync_api import expect

from tests.browser.held_routes import HeldRoutes
from tests.browser.history.page_pager import PagePager
from tests.browser.history.reading import (
    assert_slice,
    is_older,
    numbers,
    older_in_flight,
    settle,
    try_again,
    wait_for_first,
    wait_for_more_than,
)
from tests.browser.looking import Look
from tests.loopback.agent_server import AgentServer
from tests.loopback.provider import ScriptedProvider
from tests.loopback.reply import Gate, stream

pytestmark = pytest.mark.thorough

Sessions = dict[str, str]


def test_two_triggers_ask_for_one_page(look: Look, sessions: Sessions) -> None:
    look.open(sessions["long"])
    older = HeldRoutes(look.page, is_older)

    for top in (5, 0, 3, 0):
        look.scroll(top)
    older.wait_for(1)
    settle(look)

    assert len(older.asked) == 1


@pytest.mark.usefixtures("stubborn_network")
def test_from_A_to_B_to_A_a_late_page_is_dropped(look: Look, pager: PagePager, sessions: Sessions) -> None:
    look.open(sessions["long"])
    older = HeldRoutes(look.page, is_older)
    look.scroll(0)
    older.wait_for(1)
    look.switch_to(sessions["other"])
    wait_for_first(look, 60)

    look.switch_to(sessions["long"])
    wait_for_first(look, 360)
    older.deliver()
    settle(look)

    assert numbers(look) == list(range(360, 400))
    assert pager.ids() == look.ids()


def test_messages_lost_while_a_page_is_on_its_way_are_not_shown(
    look: Look, server: AgentServer, sessions: Sessions
) -> None:
    look.open(sessions["losing"])
    older = HeldRoutes(look.page, is_older)
    look.scroll(0)
    older.wait_for(1)
    url = f"{server.url}/session/{sessions['losing']}/message"

    for gone in ("msg_00130", "msg_00190"):
        assert httpx2.delete(f"{url}/{gone}").status_code == 200
    older.stop()
    older.release()

    wait_for_more_than(look, 60)
    settle(look)
    found = numbers(look)
    assert found == [number for number in range(found[0], 200) if number not in (130, 190)]


def test_a_short_session_says_where_it_begins(look: Look, sessions: Sessions) -> None:
    look.open(sessions["long"])

    look.switch_to(sessions["short"])

    wait_for_first(look, 0)
    expect(look.page.locator(".edge span")).to_have_text("The beginning")


@pytest.mark.usefixtures("stubborn_network")
def test_a_forced_reload_during_a_page_drops_the_page(
    look: Look, pager: PagePager, sessions: Sessions
) -> None:
    older = older_in_flight(look, sessions["long"])
    reload = HeldRoutes(look.page, lambda url: "/message?" in url and "before=" not in url)

    pager.reload()
    reload.wait_for(1)
    older.deliver()
    settle(look)
    assert numbers(look) == list(range(360, 400))
    assert pager.ids() == look.ids()
    reload.release()

    settle(look)
    assert numbers(look) == list(range(360, 400))
    assert pager.state()["isCurrent"] is True


def test_what_is_said_and_grows_during_a_page_stands_once_at_the_end(
    look: Look, server: AgentServer, provider: ScriptedProvider, sessions: Sessions
) -> None:
    gate = Gate()
    provider.script("answers", stream("Half of it", gate, " and the rest."))
    older = older_in_flight(look, sessions["growing"])

    server.prompt(sessions["growing"], "Said meanwhile")
    look.wait_for_text("Half of it")
    older.stop()
    older.release()
    wait_for_more_than(look, 42)
    gate.open()

    look.wait_for_text("Half of it and the rest.")
    *seeded, asked, answered = look.ids()
    assert seeded == [f"msg_{number:05}" for number in range(200 - len(seeded), 200)]
    assert asked != answered
    expect(look.page.locator(".message.user .body").last).to_have_text("Said meanwhile")


def test_an_undo_during_a_page_hides_what_it_took_and_the_page_is_not_in_the_way(
    look: Look, server: AgentServer, sessions: Sessions
) -> None:
    session = sessions["shrinking"]
    older = older_in_flight(look, session)

    httpx2.post(f"{server.url}/session/{session}/revert", json={"messageID": "msg_00180"}).raise_for_status()
    expect(look.page.locator(".reverted")).to_be_visible()
    older.stop()
    older.release()
    wait_for_first(look, 120)
    settle(look)

    assert numbers(look) == list(range(120, 180))
    httpx2.post(f"{server.url}/session/{session}/unrevert").raise_for_status()
    wait_for_more_than(look, 60)
    settle(look)
    assert_slice(look)
    assert numbers(look)[-1] == 199


@pytest.mark.usefixtures("stubborn_network")
def test_a_compaction_during_a_page_is_followed_and_the_page_dropped(
    look: Look, server: AgentServer, pager: PagePager, provider: ScriptedProvider, sessions: Sessions
) -> None:
    provider.script("answers", stream("The summary."))
    session = sessions["summarised"]
    older = older_in_flight(look, session)

    model = {"providerID": "fake", "modelID": "answers"}
    answer = httpx2.post(f"{server.url}/session/{session}/summarize", json=model, timeout=20)
    assert answer.json() is True
    look.wait_for_text("The summary.")
    older.deliver()
    settle(look)

    assert session not in pager.sessions()
    assert len(pager.sessions()) == 1
    assert not [each for each in look.ids() if each.startswith("msg_000")]


LOGINS: Final[Mapping[str, Mapping[str, Any]]] = {
    "a redirect": {"status": 302, "headers": {"location": "/login"}},
    "a page instead of data": {"content_type": "text/html", "body": "<h1>Log in</h1>"},
    "401": {"status": 401, "body": ""},
}


@pytest.mark.parametrize("login", LOGINS)
def test_a_login_instead_of_a_page_changes_nothing_and_the_next_try_works(
    look: Look, sessions: Sessions, login: str
) -> None:
    look.open(sessions["long"])
    answers = [LOGINS[login]]
    look.page.route(is_older, lambda route: route.fulfill(**answers.pop()) if answers else route.continue_())

    look.scroll(0)
    expect(look.page.locator(".edge")).to_contain_text("Not loaded")
    look.complaints.clear()  # the browser itself notes what it got

    assert numbers(look) == list(range(360, 400))
    try_again(look)


LIMITS = """() => {
    window.limits = [];
    AbortSignal.timeout = () => {
        const limit = new AbortController();
        limits.push(limit);
        return limit.signal;
    };
}"""
"""Time-outs that come when a test says so."""


def test_a_page_that_takes_too_long_is_given_up_and_its_late_reply_ignored(
    look: Look, sessions: Sessions
) -> None:
    look.page.add_init_script(f"({LIMITS})()")
    older = older_in_flight(look, sessions["long"])

    look.page.evaluate("() => limits.at(-1).abort(new DOMException('', 'TimeoutError'))")
    expect(look.page.locator(".edge")).to_contain_text("Not loaded")
    older.release()
    settle(look)

    assert numbers(look) == list(range(360, 400))
    older.stop()
    try_again(look)


def test_a_session_begun_from_a_long_one_has_nothing_older(look: Look, sessions: Sessions) -> None:
    look.open(sessions["long"])
    expect(look.page.get_by_role("button", name="Start")).to_be_visible()
    older = HeldRoutes(look.page, is_older)

    look.page.keyboard.press("Alt+n")

    expect(look.page.locator(".empty")).to_be_visible()
    expect(look.page.get_by_role("button", name="Start")).to_be_hidden()
    assert look.ids() == []
    assert older.asked == []


def test_after_missed_events_what_is_read_is_still_there_and_nothing_twice(
    look: Look, server: AgentServer, sessions: Sessions
) -> None:
    session = sessions["missing"]
    look.open(session)
    look.scroll(0)
    wait_for_more_than(look, 40)
    look.scroll(1200)
    settle(look)
    message, offset = look.first_visible()
    held = numbers(look)

    look.page.context.set_offline(True)
    expect(look.page.locator("#connection")).to_be_visible()
    gone = [number for number in held if number != int(message[4:])][3]
    url = f"{server.url}/session/{session}/message/msg_{gone:05}"
    assert httpx2.delete(url).status_code == 200
    look.page.context.set_offline(False)

    look.page.locator(f"[data-id='msg_{gone:05}']").wait_for(state="detached")
    settle(look)
    assert numbers(look) == [number for number in held if number != gone]
    assert abs(look.offset_of(message) - offset) <= 2


def something(chance: Random, look: Look, sessions: Sessions, held: HeldRoutes) -> None:
    """Do one of the things a person does, or let something arrive."""
    match chance.choice(
        ["up", "up", "up", "middle", "down", "start", "latest", "switch", "come", "come", "come"]
    ):
        case "up":
            look.scroll(0)
        case "middle":
            look.scroll(900)
        case "down":
            look.scroll(10**6)
        case "start":
            look.page.keyboard.press("Alt+Home")
        case "latest":
            look.page.keyboard.press("Alt+End")
        case "switch":
            look.switch_to(sessions[chance.choice(["long", "other"])])
        case _:
            held.release_some(chance)
    settle(look)


@pytest.mark.usefixtures("stubborn_network")
@pytest.mark.parametrize("seed", range(4))
def test_whatever_is_done_and_arrives_in_any_order_a_slice_of_one_session_is_shown(
    look: Look, pager: PagePager, sessions: Sessions, seed: int
) -> None:
    chance = Random(seed)  # noqa: S311 -- the same in every run
    look.open(sessions["long"])
    held = HeldRoutes(look.page, lambda url: "/message?" in url)

    for _ in range(40):
        something(chance, look, sessions, held)
        if look.ids():
            assert_slice(look)
        assert len(pager.sessions()) == 1
    held.stop()
    while held.release_some(chance):
        settle(look)
    look.page.keyboard.press("Alt+End")
    expect(look.page.locator(".messages")).to_have_attribute("aria-busy", "false")
    settle(look)

    assert_slice(look)
    assert pager.sessions() == {look.page.url.rpartition("/")[2]}
