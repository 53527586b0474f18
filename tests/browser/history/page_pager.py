"""The pager that the page itself works with: not a copy, and nothing that the page has for tests."""

from typing import Any, Final

from tests.browser.looking import Look

_FOUND: Final = """async () => {
    const { HistoryPager } = await import('/web/history.js');
    const proto = HistoryPager.prototype;
    const real = Object.getOwnPropertyDescriptor(proto, 'window');
    let found;
    Object.defineProperty(proto, 'window', {
        configurable: true,
        get() { found = this; return real.get.call(this) },
    });
    document.dispatchEvent(new KeyboardEvent('keydown', { altKey: true, code: 'Home' }));
    while (!found) await new Promise(requestAnimationFrame);
    Object.defineProperty(proto, 'window', real);
    return found;
}"""
"""The module is the one that the page has loaded. Alt+Home asks its pager for something, and so shows it."""


class PagePager:
    """What can be seen of the pager of a page; it is found while no session is shown."""

    def __init__(self, look: Look) -> None:
        look.open()
        self._handle = look.page.evaluate_handle(_FOUND)

    @property
    def epoch(self) -> int:
        """How often the window was to be replaced."""
        return int(self._handle.evaluate("(pager) => pager.epoch"))

    def state(self) -> dict[str, Any]:
        """Return all that an answer could change."""
        state: dict[str, Any] = self._handle.evaluate(
            """(pager) => {
                const { epoch, underWay, isCurrent, window } = pager;
                return { epoch, underWay, isCurrent, window, error: pager.error?.message ?? null };
            }"""
        )
        return state

    def ids(self) -> list[str]:
        """Return the messages it holds, whether they are drawn yet or not."""
        found: list[str] = self._handle.evaluate("(pager) => pager.messages.map(({ id }) => id)")
        return found

    def sessions(self) -> set[str]:
        """Return the sessions whose messages it holds, and the one it says it shows."""
        found: list[str] = self._handle.evaluate(
            "(pager) => [pager.sessionID, ...pager.messages.map(({ info }) => info.sessionID)]"
        )
        return set(found)

    def reload(self) -> None:
        """Force what is held to be loaded again; this does not wait for it."""
        self._handle.evaluate("(pager) => void pager.reload()")
