"""What is read stays where it is, within 2 pixels, whatever comes or grows above it."""

import pytest

from tests.browser.held_routes import HeldRoutes
from tests.browser.history.reading import is_older, numbers, settle, wait_for_first
from tests.browser.looking import Look
from tests.browser.seeding import PICTURES_EVERY

pytestmark = pytest.mark.thorough

Sessions = dict[str, str]


def test_what_is_read_stays_in_its_place_when_older_messages_come(look: Look, sessions: Sessions) -> None:
    look.open(sessions["long"])
    older = HeldRoutes(look.page, is_older)
    look.scroll(200)
    older.wait_for(1)
    message, offset = look.first_visible()

    older.release()
    wait_for_first(look, 320)
    settle(look)

    assert abs(look.offset_of(message) - offset) <= 2


def test_what_is_read_stays_in_its_place_when_something_above_grows_late(
    look: Look, sessions: Sessions
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


def test_what_is_read_stays_in_its_place_when_pictures_above_are_decoded(
    look: Look, sessions: Sessions
) -> None:
    """The height of a picture is known only after its message was drawn."""
    look.open(sessions["long"])
    older = HeldRoutes(look.page, is_older)
    look.scroll(200)
    older.wait_for(1)
    message, offset = look.first_visible()

    older.release()
    wait_for_first(look, 320)
    above = look.page.locator(f".message[data-id='{message}']").locator(
        "xpath=preceding-sibling::article//img"
    )
    pictures = above.evaluate_all(
        """async (images) => {
            await Promise.all(images.map((image) => image.decode()));
            return images.map(({ clientHeight }) => clientHeight);
        }"""
    )
    settle(look)

    assert len(pictures) >= 40 // PICTURES_EVERY
    assert min(pictures) > 100
    assert abs(look.offset_of(message) - offset) <= 2


def test_what_is_read_stays_in_its_place_when_markdown_above_is_laid_out_anew(
    look: Look, sessions: Sessions
) -> None:
    """A window that gets narrower breaks every line above it in other places."""
    look.open(sessions["long"])
    look.scroll(1500)
    settle(look)
    message, offset = look.first_visible()

    look.page.set_viewport_size({"width": 700, "height": 800})
    settle(look)

    assert abs(look.offset_of(message) - offset) <= 2


def test_what_is_read_stays_in_its_place_when_the_window_gives_up_its_other_end(
    look: Look, sessions: Sessions
) -> None:
    look.open(sessions["long"])
    for first in (320, 280, 240):
        look.scroll(200)
        wait_for_first(look, first)
    older = HeldRoutes(look.page, is_older)
    look.scroll(200)
    older.wait_for(1)
    message, offset = look.first_visible()
    newest = numbers(look)[-1]

    older.release()
    look.page.locator(f"[data-id='msg_{newest:05}']").wait_for(state="detached")
    settle(look)

    assert abs(look.offset_of(message) - offset) <= 2
