"""The rows C1-C12 and C.4 of the contract, as far as they can be seen on the page."""

from collections.abc import Iterator

import httpx2
import pytest
from playwright.sync_api import expect

from tests.browser.conftest import MODELS, SETTINGS
from tests.browser.held_routes import HeldRoutes
from tests.browser.looking import Look
from tests.browser.seeding import seeded
from tests.loopback.agent_server import AgentHome, AgentServer
from tests.loopback.provider import ScriptedProvider

pytestmark = pytest.mark.thorough


SIZES = {"long": 400, "other": 100, "changing": 300, "short": 10}


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


def is_older(url: str) -> bool:
    return "before=" in url


def is_start(url: str) -> bool:
    return "order=asc" in url and "after=" not in url


def numbers(look: Look) -> list[int]:
    return [int(each.removeprefix("msg_")) for each in look.ids()]


def assert_slice(look: Look) -> None:
    """The page holds a contiguous slice, no message twice."""
    found = numbers(look)
    assert found == list(range(found[0], found[0] + len(found)))


def start(look: Look) -> None:
    look.page.get_by_role("button", name="Start").click()


def wait_for_first(look: Look, number: int) -> None:
    look.page.wait_for_function(
        "(id) => document.querySelector('.message')?.dataset.id === id", arg=f"msg_{number:05}"
    )


def wait_for_more_than(look: Look, count: int) -> None:
    look.page.wait_for_function("(count) => document.querySelectorAll('.message').length > count", arg=count)


def settle(look: Look) -> None:
    """Let two frames pass, so that whatever came is drawn."""
    look.page.evaluate(
        "() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"
    )


@pytest.mark.parametrize("order", ["page first", "jump first"])
def test_C3_C5_C9_C10_a_page_in_flight_is_dropped_when_start_is_chosen(
    look: Look, sessions: dict[str, str], order: str
) -> None:
    look.open(sessions["long"])
    older, jump = HeldRoutes(look.page, is_older), HeldRoutes(look.page, is_start)
    look.scroll(0)
    older.wait_for(1)

    start(look)
    jump.wait_for(1)
    before = look.ids()
    if order == "page first":
        older.release()
        settle(look)
        assert look.ids() == before
        jump.release()
        wait_for_first(look, 0)
    else:
        jump.release()
        wait_for_first(look, 0)
        older.release()
    settle(look)

    assert numbers(look) == list(range(40))


def test_C7_nothing_older_is_asked_for_while_start_is_on_its_way(
    look: Look, sessions: dict[str, str]
) -> None:
    look.open(sessions["long"])
    jump = HeldRoutes(look.page, is_start)
    start(look)
    jump.wait_for(1)
    older = HeldRoutes(look.page, is_older)

    look.scroll(0)
    settle(look)

    assert older.asked == []
    older.stop()
    jump.release()
    wait_for_first(look, 0)
    look.scroll(10**6)
    wait_for_more_than(look, 40)
    assert_slice(look)


def test_C8_after_a_failure_older_messages_can_be_asked_for_again(
    look: Look, sessions: dict[str, str]
) -> None:
    look.open(sessions["long"])
    answers = iter([500])
    look.page.route(
        is_older, lambda route: route.fulfill(status=500) if next(answers, 0) else route.continue_()
    )
    look.scroll(0)
    expect(look.page.locator(".edge")).to_contain_text("Not loaded")
    look.complaints.clear()  # the browser itself notes the 500

    look.page.get_by_role("button", name="Try again").click()
    look.page.locator(".edge button").wait_for(state="hidden")
    look.scroll(300)
    look.scroll(0)

    wait_for_more_than(look, 40)
    assert_slice(look)


def test_C11_at_the_beginning_nothing_older_is_asked_for(look: Look, sessions: dict[str, str]) -> None:
    look.open(sessions["long"])
    start(look)
    wait_for_first(look, 0)
    older = HeldRoutes(look.page, is_older)

    look.scroll(200)
    look.scroll(0)
    settle(look)

    assert older.asked == []
    expect(look.page.locator(".edge span")).to_have_text("The beginning")


def test_C12_a_late_start_of_one_session_leaves_another_untouched(
    look: Look, sessions: dict[str, str]
) -> None:
    look.open(sessions["long"])
    jump = HeldRoutes(look.page, is_start)
    start(look)
    jump.wait_for(1)

    look.switch_to(sessions["other"])
    wait_for_first(look, 60)
    jump.release()
    settle(look)

    assert numbers(look) == list(range(60, 100))


def test_two_triggers_ask_for_one_page(look: Look, sessions: dict[str, str]) -> None:
    look.open(sessions["long"])
    older = HeldRoutes(look.page, is_older)

    for top in (5, 0, 3, 0):
        look.scroll(top)
    older.wait_for(1)
    settle(look)

    assert len(older.asked) == 1


def test_from_A_to_B_to_A_a_late_page_is_dropped(look: Look, sessions: dict[str, str]) -> None:
    look.open(sessions["long"])
    older = HeldRoutes(look.page, is_older)
    look.scroll(0)
    older.wait_for(1)
    look.switch_to(sessions["other"])
    wait_for_first(look, 60)

    look.switch_to(sessions["long"])
    wait_for_first(look, 360)
    older.release()
    settle(look)

    assert numbers(look) == list(range(360, 400))


def test_messages_lost_while_a_page_is_on_its_way_are_not_shown(
    look: Look, server: AgentServer, sessions: dict[str, str]
) -> None:
    look.open(sessions["changing"])
    older = HeldRoutes(look.page, is_older)
    look.scroll(0)
    older.wait_for(1)
    url = f"{server.url}/session/{sessions['changing']}/message"

    for gone in ("msg_00230", "msg_00290"):
        assert httpx2.delete(f"{url}/{gone}").status_code == 200
    older.stop()
    older.release()

    wait_for_more_than(look, 60)
    settle(look)
    found = numbers(look)
    assert found == [number for number in range(found[0], 300) if number not in (230, 290)]


def test_what_is_read_stays_in_its_place_when_older_messages_come(
    look: Look, sessions: dict[str, str]
) -> None:
    look.open(sessions["long"])
    older = HeldRoutes(look.page, is_older)
    look.scroll(200)
    older.wait_for(1)
    message, offset = look.first_visible()

    older.release()
    wait_for_more_than(look, 40)
    settle(look)

    assert abs(look.offset_of(message) - offset) <= 2


def test_what_is_read_stays_in_its_place_when_something_above_grows_late(
    look: Look, sessions: dict[str, str]
) -> None:
    look.open(sessions["long"])
    look.scroll(1500)
    settle(look)
    message, offset = look.first_visible()

    look.page.evaluate(
        """(id) => {
            const above = document.querySelector(`[data-id="${id}"]`).previousElementSibling;
            above.querySelector('.body').append(Object.assign(new Image(), { width: 10, height: 333 }));
        }""",
        message,
    )
    settle(look)

    assert abs(look.offset_of(message) - offset) <= 2


def test_a_short_session_says_where_it_begins(look: Look, sessions: dict[str, str]) -> None:
    look.open(sessions["long"])

    look.switch_to(sessions["short"])

    wait_for_first(look, 0)
    expect(look.page.locator(".edge span")).to_have_text("The beginning")


def test_start_and_latest_lead_there_and_back(look: Look, sessions: dict[str, str]) -> None:
    look.open(sessions["long"])

    start(look)
    wait_for_first(look, 0)
    look.page.get_by_role("button", name="Latest").click()

    wait_for_first(look, 360)
    expect(look.page.get_by_role("button", name="Latest")).to_be_hidden()
    assert look.first_visible()[0] != "msg_00360"
