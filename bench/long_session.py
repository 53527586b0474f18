"""What the page takes to show a session of 10,000 messages in Chromium, and to scroll through 2,000 of them.

Frames depend on the machine more than on the page, so that a page that does nothing is scrolled the same way
in the same run: the same styles and as many messages, already drawn, without any script. A frame that comes
later than the screen asks for it is counted as many times as one was left out.

Run it from the repository as ``python -m bench.long_session [rounds]``.
"""

import os
import shutil
import statistics
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from playwright.sync_api import Browser, CDPSession, Page, sync_playwright

from tests.browser.conftest import MODELS, SETTINGS
from tests.browser.seeding import seeded
from tests.loopback.agent_server import AgentHome, AgentServer
from tests.loopback.provider import ScriptedProvider
from tests.loopback.reply import stream

MESSAGES: Final = 10_000
SCROLLED: Final = 2_000
PIXELS: Final = 300
"""How far each frame scrolls: a wheel that is spun hard."""

FRAME_MS: Final = 1_000 / 60

SHOWN: Final = """() => {
    const [paint] = performance.getEntriesByName('first-contentful-paint');
    return { paint: paint.startTime, shown: performance.now() };
}"""

JUMP: Final = """async () => {
    const begun = performance.now();
    document.querySelector('#tools button').click();
    while (document.querySelector('.message')?.dataset.id !== 'msg_00000')
        await new Promise(requestAnimationFrame);
    return performance.now() - begun;
}"""

SCROLL: Final = """async ({ pixels, until }) => {
    const box = document.querySelector('.transcript');
    const times = [];
    let last = await new Promise(requestAnimationFrame);
    let step = -pixels;
    for (;;) {
        const before = box.scrollTop;
        box.scrollTop += step;
        const now = await new Promise(requestAnimationFrame);
        times.push(now - last);
        last = now;
        const first = document.querySelector('.message').dataset.id;
        if (until.id ? first <= until.id : times.length >= until.frames) return times;
        if (until.frames && box.scrollTop === before) step = -step;
    }
}"""
"""To a message; or for a number of frames where nothing older is loaded, turning round at the ends."""

STRIPPED: Final = """() => {
    for (const each of document.querySelectorAll('script, link[rel=modulepreload]')) each.remove();
    return document.documentElement.outerHTML;
}"""


@dataclass(frozen=True)
class Round:
    """What one round on both pages took; memory and nodes of ours, before and after."""

    paint_ms: float
    shown_ms: float
    jump_ms: float
    frames_ms: Sequence[float]
    limit_ms: Sequence[float]
    nodes: tuple[int, int]
    heap_bytes: tuple[int, int]


def held(devtools: CDPSession) -> tuple[int, int]:
    """Return the nodes and the bytes of JavaScript that are still used."""
    devtools.send("HeapProfiler.collectGarbage")
    metrics: dict[str, Any] = {
        each["name"]: each["value"] for each in devtools.send("Performance.getMetrics")["metrics"]
    }
    return int(metrics["Nodes"]), int(metrics["JSHeapUsedSize"])


def measured(browser: Browser, url: str, session: str) -> Round:
    """Open the session, jump to its start and back, scroll; then scroll what does nothing as long."""
    with browser.new_context(viewport={"width": 1100, "height": 800}) as context:
        page = context.new_page()
        page.goto(f"{url}/#/session/{session}")
        page.locator(".message").last.wait_for()
        opened = page.evaluate(SHOWN)
        jump_ms = page.evaluate(JUMP)
        page.get_by_role("button", name="Latest").click()
        page.locator(f"[data-id='msg_{MESSAGES - 1:05}']").wait_for()
        devtools = context.new_cdp_session(page)
        devtools.send("Performance.enable")
        before = held(devtools)
        frames = page.evaluate(SCROLL, {"pixels": PIXELS, "until": {"id": f"msg_{MESSAGES - SCROLLED:05}"}})
        after = held(devtools)
        limit = still(context.new_page(), url, page.evaluate(STRIPPED), len(frames))
    return Round(
        paint_ms=opened["paint"],
        shown_ms=opened["shown"],
        jump_ms=jump_ms,
        frames_ms=frames,
        limit_ms=limit,
        nodes=(before[0], after[0]),
        heap_bytes=(before[1], after[1]),
    )


def still(page: Page, url: str, markup: str, frames: int) -> Sequence[float]:
    """Return the frames of the page as it stands, with nothing that runs in it."""
    page.route(f"{url}/", lambda route: route.fulfill(body=markup, content_type="text/html"))
    page.goto(url)
    times: list[float] = page.evaluate(SCROLL, {"pixels": PIXELS, "until": {"frames": frames}})
    return times


def share(times: Sequence[float], percent: int) -> float:
    """Return the time that so many percent of frames keep within."""
    return statistics.quantiles(times, n=100)[percent - 1]


def left_out(times: Sequence[float]) -> int:
    """Return how many frames of the screen had nothing new."""
    return sum(max(0, round(time / FRAME_MS) - 1) for time in times)


def described(times: Sequence[float]) -> str:
    """Say how the frames were."""
    shares = ", ".join(f"p{percent} {share(times, percent):.1f}" for percent in (50, 95, 99))
    return f"{len(times)} frames, {shares}, longest {max(times):.1f} ms, {left_out(times)} left out"


def report(rounds: Sequence[Round]) -> None:
    """Print everything."""
    for words, values in (
        ("first paint", [each.paint_ms for each in rounds]),
        ("messages shown", [each.shown_ms for each in rounds]),
        ("jump to the start", [each.jump_ms for each in rounds]),
    ):
        print(f"{words}: {statistics.median(values):.0f} ms (from {min(values):.0f} to {max(values):.0f})")
    ours = [time for each in rounds for time in each.frames_ms]
    limit = [time for each in rounds for time in each.limit_ms]
    print(f"scrolled through {SCROLLED:,} messages: {described(ours)}")
    print(f"a page that does nothing:          {described(limit)}")
    ratios = ", ".join(
        f"p{percent} {share(ours, percent) / share(limit, percent):.2f}" for percent in (50, 95, 99)
    )
    print(f"ours / nothing: {ratios}, total time {sum(ours) / sum(limit):.2f}")
    (nodes, nodes_after), (heap, heap_after) = rounds[-1].nodes, rounds[-1].heap_bytes
    print(f"nodes: {nodes:,} before, {nodes_after:,} after")
    print(f"JavaScript: {heap / 1e6:.1f} MB before, {heap_after / 1e6:.1f} MB after")


@contextmanager
def host(folder: Path) -> Iterator[tuple[str, str]]:
    """Serve the session; the address and its id."""
    with ScriptedProvider(
        {"answers": [stream("The answer.")], "second": [stream("The answer.")]}
    ) as provider:
        home = AgentHome(folder, provider, MODELS, SETTINGS)
        session = seeded(home.data, {"A long session": MESSAGES})["A long session"]
        with AgentServer(home) as server:
            yield server.url, session


def main() -> None:
    """Measure and print."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 3
    print(f"{rounds} rounds, {MESSAGES:,} messages, load {os.getloadavg()[0]:.1f}")
    with (
        tempfile.TemporaryDirectory() as folder,
        host(Path(folder)) as (url, session),
        sync_playwright() as driver,
    ):
        browser = driver.chromium.launch(
            executable_path=shutil.which("chromium") or shutil.which("chromium-browser"),
            args=["--no-sandbox"],
        )
        report([measured(browser, url, session) for _ in range(rounds)])
        browser.close()


if __name__ == "__main__":
    main()
