"""What a person sees of a session that is longer than what is held, and how it gets there."""

from tests.browser.looking import Look


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
