"""What a person sees of a session that is longer than what is held, and how it gets there."""

from tests.browser.held_routes import HeldRoutes
from tests.browser.looking import Look


def is_older(url: str) -> bool:
    return "before=" in url


def is_start(url: str) -> bool:
    return "order=asc" in url and "after=" not in url


def is_latest(url: str) -> bool:
    return "/message" in url and not any(each in url for each in ("before=", "after=", "order="))


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
    """Let two frames pass, and then those over which whatever came is drawn."""
    look.page.evaluate(
        """() => new Promise((done) => {
            let before = null;
            const look = () => {
                const drawn = [...document.querySelectorAll('.message')];
                const now = drawn.map(({ dataset }) => dataset.id).join();
                if (now === before) return done();
                before = now;
                requestAnimationFrame(look);
            };
            requestAnimationFrame(() => requestAnimationFrame(look));
        })"""
    )


def older_in_flight(look: Look, session: str) -> HeldRoutes:
    """Show the end of a session, with an answer on its way that holds what stands before."""
    look.open(session)
    older = HeldRoutes(look.page, is_older)
    look.scroll(0)
    older.wait_for(1)
    return older


def try_again(look: Look) -> None:
    """Ask anew for what could not be loaded, and read on: all is there, once."""
    look.page.get_by_role("button", name="Try again").click()
    look.page.locator(".edge button").wait_for(state="hidden")
    look.scroll(300)
    look.scroll(0)
    wait_for_more_than(look, 40)
    assert_slice(look)
