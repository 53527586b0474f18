"""What a person sees of the page, and does with it."""

from typing import Any, Final

from playwright.sync_api import ConsoleMessage, Dialog, Error, Locator, Page

OFFLINE: Final = "net::ERR_"
"""A host that is away is a line of the browser's own in the console, not one of the page's."""


class Look:
    """The page in one tab. ``complaints`` collects errors of the page and violations of its policy."""

    def __init__(self, page: Page, url: str) -> None:
        self.page = page
        self.url = url
        self.complaints: list[str] = []
        page.on("console", self._heard)
        page.on("pageerror", self._failed)
        page.on("dialog", self._asked)

    def open(self, session: str | None = None) -> None:
        """Go to a session, or to the list of them."""
        self.page.goto(f"{self.url}/#/session/{session}" if session else f"{self.url}/")
        if session is not None:
            self.page.locator(".messages[aria-busy=false]").wait_for(state="attached")

    def switch_to(self, session: str) -> None:
        """Choose another session from the list."""
        self.page.locator(f"[data-session='{session}'] a").click()

    @property
    def draft(self) -> Locator:
        """Where a message is written."""
        return self.page.get_by_role("textbox", name="Message", exact=True)

    @property
    def stop(self) -> Locator:
        """What stops the answer."""
        return self.page.get_by_role("button", name="Stop", exact=True)

    @property
    def messages(self) -> Locator:
        """All messages that are on the page."""
        return self.page.locator(".message")

    def say(self, text: str) -> None:
        """Write a message and send it."""
        self.draft.fill(text)
        self.draft.press("Enter")

    def wait_for_text(self, text: str) -> None:
        """Wait until an answer shows a text."""
        self.page.locator(".message.assistant", has_text=text).first.wait_for()

    def ids(self) -> list[str]:
        """Return the ids of the messages on the page, in their order."""
        found: list[str] = self.page.evaluate(
            "() => [...document.querySelectorAll('.message')].map((each) => each.dataset.id)"
        )
        return found

    def scroll(self, top: int) -> None:
        """Scroll the messages to a place."""
        self.page.locator(".transcript").evaluate("(box, top) => { box.scrollTop = top }", top)

    def first_visible(self) -> tuple[str, float]:
        """Return the id of the first message in sight, and how far below the upper edge it begins."""
        found: list[Any] = self.page.evaluate(
            """() => {
                const top = document.querySelector('.transcript').getBoundingClientRect().top;
                const each = [...document.querySelectorAll('.message')]
                    .find((message) => message.getBoundingClientRect().bottom > top + 1);
                return [each.dataset.id, each.getBoundingClientRect().top - top];
            }"""
        )
        return str(found[0]), float(found[1])

    def offset_of(self, message: str) -> float:
        """Return how far below the upper edge a message begins."""
        found: float = self.page.evaluate(
            """(id) => document.querySelector(`[data-id="${id}"]`).getBoundingClientRect().top
                - document.querySelector('.transcript').getBoundingClientRect().top""",
            message,
        )
        return found

    def beyond(self, width: int) -> list[str]:
        """Return what reaches further to the side than a screen of this width; what scrolls in itself may."""
        found: list[str] = self.page.evaluate(
            """(width) => [...document.querySelectorAll('html, main *, header *, dialog *')]
                .filter((each) => !each.closest('pre, .table, .unseen'))
                .filter((each) => each.getBoundingClientRect().right > width + 0.5)
                .map((each) => each.outerHTML.slice(0, 80))""",
            width,
        )
        return found

    def _failed(self, error: Error) -> None:
        self.complaints.append(f"error: {error}")

    def _asked(self, dialog: Dialog) -> None:
        self.complaints.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    def _heard(self, message: ConsoleMessage) -> None:
        if message.type in {"error", "warning"} and OFFLINE not in message.text:
            self.complaints.append(f"{message.type}: {message.text}")
