"""The rows C1-C12 of the contract, as they are on the page. `test_vectors.py` has them for its pager."""

import pytest
from playwright.sync_api import expect

from tests.browser.held_routes import HeldRoutes
from tests.browser.history.page_pager import PagePager
from tests.browser.history.reading import (
    assert_slice,
    is_latest,
    is_older,
    is_start,
    numbers,
    older_in_flight,
    settle,
    start,
    try_again,
    wait_for_first,
    wait_for_more_than,
)
from tests.browser.looking import Look

pytestmark = pytest.mark.thorough

Sessions = dict[str, str]

WATCH = """() => {
    window.drawn = [];
    const note = () => {
        const ids = [...document.querySelectorAll('.message')].map(({ dataset }) => dataset.id);
        if (drawn.at(-1)?.join() !== ids.join()) drawn.push(ids);
    };
    note();
    new MutationObserver(note).observe(document.querySelector('.messages'), { childList: true });
}"""
"""Notes each list of messages that is ever in the document."""


def test_C1_the_pager_of_a_fresh_page_has_an_epoch_and_it_is_0(pager: PagePager) -> None:
    assert pager.epoch == 0


def test_C2_each_replacement_changes_the_epoch_once_and_nothing_else_does(
    look: Look, pager: PagePager, sessions: Sessions
) -> None:
    epochs = [pager.epoch]

    look.open(sessions["long"])
    epochs.append(pager.epoch)
    look.scroll(0)
    wait_for_more_than(look, 40)
    epochs.append(pager.epoch)
    start(look)
    wait_for_first(look, 0)
    epochs.append(pager.epoch)
    look.page.get_by_role("button", name="Latest").click()
    wait_for_first(look, 360)
    epochs.append(pager.epoch)
    look.switch_to(sessions["other"])
    wait_for_first(look, 60)
    epochs.append(pager.epoch)

    assert epochs == [0, 1, 1, 2, 3, 4]


@pytest.mark.usefixtures("stubborn_network")
@pytest.mark.parametrize("order", ["page first", "jump first"])
def test_C3_C9_C10_a_page_in_flight_is_dropped_when_start_is_chosen(
    look: Look, sessions: Sessions, order: str
) -> None:
    older, jump = older_in_flight(look, sessions["long"]), HeldRoutes(look.page, is_start)

    start(look)
    jump.wait_for(1)
    before = look.ids()
    if order == "page first":
        older.deliver()
        settle(look)
        assert look.ids() == before
        jump.release()
        wait_for_first(look, 0)
    else:
        jump.release()
        wait_for_first(look, 0)
        older.deliver()
    settle(look)

    assert numbers(look) == list(range(40))


@pytest.mark.usefixtures("stubborn_network")
def test_C4_a_late_page_touches_neither_messages_nor_cursors_nor_whose_turn_it_is(
    look: Look, pager: PagePager, sessions: Sessions
) -> None:
    older, jump = older_in_flight(look, sessions["long"]), HeldRoutes(look.page, is_start)
    start(look)
    jump.wait_for(1)
    before = pager.state()

    older.deliver()
    settle(look)

    assert pager.state() == before
    assert before["underWay"] == "jumpToStart"
    jump.release()
    wait_for_first(look, 0)


@pytest.mark.usefixtures("stubborn_network")
def test_C5_no_list_between_the_two_is_ever_drawn(look: Look, sessions: Sessions) -> None:
    older, jump = older_in_flight(look, sessions["long"]), HeldRoutes(look.page, is_start)
    start(look)
    jump.wait_for(1)
    look.page.evaluate(WATCH)

    older.deliver()
    settle(look)
    jump.release()
    wait_for_first(look, 0)
    settle(look)

    drawn = look.page.evaluate("() => drawn.map((ids) => ids.map((id) => Number(id.slice(4))))")
    assert drawn == [list(range(360, 400)), list(range(40))]


def test_C6_the_epoch_changes_before_the_replacement_and_not_again(
    look: Look, pager: PagePager, sessions: Sessions
) -> None:
    older_in_flight(look, sessions["long"])
    jump = HeldRoutes(look.page, is_start)
    before = pager.epoch

    start(look)
    jump.wait_for(1)

    assert (pager.epoch, numbers(look)[0]) == (before + 1, 360)
    jump.release()
    wait_for_first(look, 0)
    assert pager.epoch == before + 1


def test_C7_nothing_older_is_asked_for_while_start_is_on_its_way(look: Look, sessions: Sessions) -> None:
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


def test_C8_after_a_failure_older_messages_can_be_asked_for_again(look: Look, sessions: Sessions) -> None:
    look.open(sessions["long"])
    answers = iter([500])
    look.page.route(
        is_older, lambda route: route.fulfill(status=500) if next(answers, 0) else route.continue_()
    )
    look.scroll(0)
    expect(look.page.locator(".edge")).to_contain_text("Not loaded")
    look.complaints.clear()  # the browser itself notes the 500

    try_again(look)


def test_C9_start_twice_asks_once(look: Look, sessions: Sessions) -> None:
    look.open(sessions["long"])
    jump = HeldRoutes(look.page, is_start)

    start(look)
    start(look)
    jump.wait_for(1)
    settle(look)

    assert len(jump.asked) == 1
    jump.release()
    wait_for_first(look, 0)
    settle(look)
    assert numbers(look) == list(range(40))


def test_C11_at_the_beginning_nothing_older_is_asked_for(look: Look, sessions: Sessions) -> None:
    look.open(sessions["long"])
    start(look)
    wait_for_first(look, 0)
    older = HeldRoutes(look.page, is_older)

    look.scroll(200)
    look.scroll(0)
    settle(look)

    assert older.asked == []
    expect(look.page.locator(".edge span")).to_have_text("The beginning")


@pytest.mark.usefixtures("stubborn_network")
def test_C12_a_late_start_of_one_session_leaves_another_untouched(look: Look, sessions: Sessions) -> None:
    look.open(sessions["long"])
    jump = HeldRoutes(look.page, is_start)
    start(look)
    jump.wait_for(1)

    look.switch_to(sessions["other"])
    wait_for_first(look, 60)
    jump.deliver()
    settle(look)

    assert numbers(look) == list(range(60, 100))


@pytest.mark.usefixtures("stubborn_network")
def test_a_late_latest_of_one_session_leaves_another_where_it_is_read(look: Look, sessions: Sessions) -> None:
    look.open(sessions["long"])
    start(look)
    wait_for_first(look, 0)
    latest = HeldRoutes(look.page, is_latest)
    look.page.get_by_role("button", name="Latest").click()
    latest.wait_for(1)
    latest.stop()

    look.switch_to(sessions["other"])
    wait_for_first(look, 60)
    look.scroll(1500)
    settle(look)
    message, offset = look.first_visible()
    latest.deliver()
    settle(look)

    assert abs(look.offset_of(message) - offset) <= 2


def test_start_and_latest_lead_there_and_back(look: Look, sessions: Sessions) -> None:
    look.open(sessions["long"])

    start(look)
    wait_for_first(look, 0)
    look.page.get_by_role("button", name="Latest").click()

    wait_for_first(look, 360)
    expect(look.page.get_by_role("button", name="Latest")).to_be_hidden()
    assert look.first_visible()[0] != "msg_00360"
