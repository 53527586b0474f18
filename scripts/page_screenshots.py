"""Pictures of every view of the page, of a host whose models do what a script says."""

import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from playwright.sync_api import Browser, sync_playwright

from tests.browser.looking import Look
from tests.browser.scenes import FIRST_USE, VIEWS, Shown, View, first_use, in_use
from tests.loopback.provider import ScriptedProvider

SCREENS: Final = {"desktop": (1200, 820), "phone": (390, 844)}
THEMES: Final = ("light", "dark")


def pictures(
    browser: Browser, url: str, sessions: Mapping[str, str], show: View
) -> Iterator[tuple[str, bytes]]:
    """Take the pictures of one view, each in a fresh browser; with each go its screen and theme."""
    for screen, (width, height) in SCREENS.items():
        for theme in THEMES:
            with browser.new_context(
                viewport={"width": width, "height": height},
                color_scheme="dark" if theme == "dark" else "light",
                reduced_motion="reduce",
                is_mobile=screen == "phone",
                has_touch=screen == "phone",
            ) as context:
                page = context.new_page()
                show(Shown(Look(page, url), sessions))
                page.evaluate("() => document.fonts.ready")
                yield f"{screen}-{theme}", page.screenshot()


def main() -> None:
    """Take all pictures, or those of the views that are named after the folder."""
    folder, *only = sys.argv[1:] or ["screenshots"]
    Path(folder).mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        root = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        provider = stack.enter_context(ScriptedProvider())
        browser = stack.enter_context(sync_playwright()).chromium.launch(
            executable_path=shutil.which("chromium") or shutil.which("chromium-browser"),
            args=["--no-sandbox"],
        )
        for name, host, views in (("first", first_use, FIRST_USE), ("used", in_use, VIEWS)):
            wanted = {view: show for view, show in views.items() if not only or view in only}
            if not wanted:
                continue
            with host(provider, root / name) as (url, sessions):
                for view, show in wanted.items():
                    print(view, flush=True)
                    for kind, picture in pictures(browser, url, sessions, show):
                        (Path(folder) / f"{view}-{kind}.png").write_bytes(picture)
        browser.close()


if __name__ == "__main__":
    main()
