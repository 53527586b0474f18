"""Answers of the host that reach the page when a test says so."""

from collections.abc import Callable
from random import Random

from playwright.sync_api import APIResponse, Page, Route


class HeldRoutes:
    """Holds back what the host answers to calls whose address a test picks; the host has answered by then."""

    def __init__(self, page: Page, picks: Callable[[str], bool]) -> None:
        self._page = page
        self._is_over = False
        self._held: list[tuple[Route, APIResponse]] = []
        self.asked: list[str] = []
        page.route(picks, self._hold)

    def wait_for(self, count: int) -> None:
        """Wait until so many answers are held or were."""
        for _ in range(200):
            if len(self.asked) >= count and len(self._held) >= 1:
                return
            self._page.wait_for_timeout(25)
        raise AssertionError(f"{count} calls were expected, there were {self.asked}")

    def release(self, at: int = 0) -> None:
        """Let one held answer reach the page, by default the oldest; a page that gave it up gets none."""
        route, response = self._held.pop(at)
        route.fulfill(response=response)

    def deliver(self) -> None:
        """Let the oldest held answer reach the page, and wait until it has come."""
        route, _ = self._held[0]
        with self._page.expect_event("requestfinished", lambda request: request == route.request):
            self.release()

    def release_some(self, chance: Random) -> bool:
        """Let any one of the held answers reach the page; tell whether there was one."""
        if not self._held:
            return False
        self.release(chance.randrange(len(self._held)))
        return True

    def stop(self) -> None:
        """Hold nothing back any more."""
        self._is_over = True

    def _hold(self, route: Route) -> None:
        if self._is_over:
            route.continue_()
            return
        self.asked.append(route.request.url)
        self._held.append((route, route.fetch()))
