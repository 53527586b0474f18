"""What a tracked session costs in memory, and whether all of it comes back when sessions end.

Sessions run through the plugin host and the fallback plugin as they do in the bridge; only the coding agent
is a fake. They are healthy, or have been switched, or are caught in the middle of a switch. They begin and
end twice: first they are deleted, then only quiet for long. Each figure is taken in a fresh process, since
the tracing of allocations takes memory itself.

Run it from the repository as ``python -m bench.session_memory [sessions]``.
"""

import gc
import logging
import os
import sys
import tempfile
import tracemalloc
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Final, Literal, TypeAlias

import anyio
from anyio.lowlevel import checkpoint

from bench.fake_agent import PRIMARY, Case, FakeAgent
from bench.process import resident_bytes
from fallback_plugin.fallback.plugin import FallbackPlugin
from fallback_plugin.plugins import PluginHost
from fallback_plugin.settings import Settings
from fallback_plugin.wire.event import read_event

BUDGET_BYTES: Final = 40_000_000 / 10_000
LEFT_OVER: Final = 0.05
"""What part of the sessions' memory may stay when they end: tables that the next ones fill again."""
SECOND_ROUND: Final = 0.2
"""The second round's size, as a part of the first's."""
GROWTH: Final = 0.01
"""What part may be left after the second round beyond what was left after the first."""
BATCH: Final = 200
WARM_UP_SESSIONS: Final = 100
OTHERS: Final = range(10**9, 10**9 + 2)
TWO_DAYS_S: Final = 2 * 24 * 3600.0

SETTINGS: Final = {"fallback_models": ["fakeb/fallback-a", "fakeb/fallback-b"]}

CASES: Final[tuple[Case, ...]] = ("healthy", "switched", "mid-switch")
IN_FLIGHT: Final[tuple[Case, ...]] = ("mid-switch",)
"""Cases with an open call and its task for each session, which the budget of a tracked session leaves out."""
Gauge: TypeAlias = Literal["traced", "resident"]


@dataclass(frozen=True)
class Figures:
    """Bytes beyond those of a host that has seen a few sessions: with all sessions, and after each end."""

    held: int
    deleted: int
    quiet: int


@dataclass
class Rounds:
    """Sessions of one case that begin and end."""

    case: Case
    agent: FakeAgent
    plugin: FallbackPlugin

    async def begin(self, numbers: range) -> None:
        """Bring sessions to where their case wants them."""
        self.agent.stopped = anyio.Event() if self.case == "mid-switch" else None
        for number in numbers:
            self.agent.begin(self.case, session_id(number))
            if number % BATCH == 0:
                await settle()
        await settle()
        check_tracked(self.plugin, self.case, numbers)

    async def delete(self, numbers: range) -> None:
        """End sessions by deleting them."""
        for number in numbers:
            self.agent.delete(session_id(number))
            if number % BATCH == 0:
                await settle()
        await self._let_aborts_fail()
        check_forgotten(self.plugin, numbers)

    async def fall_quiet(self, numbers: range) -> None:
        """End sessions by letting time go by."""
        await self._let_aborts_fail()
        await self.another_day()
        check_forgotten(self.plugin, numbers)

    async def another_day(self) -> None:
        """Let time go by. What only time ends is ended by the next session that begins, or that fails."""
        self.agent.now += TWO_DAYS_S
        await self.begin(OTHERS)
        await self.delete(OTHERS)

    async def _let_aborts_fail(self) -> None:
        if self.agent.stopped is not None:
            self.agent.stopped.set()
        await settle()


async def figures(case: Case, sessions: int, gauge: Callable[[], int], health_file: Path) -> Figures:
    """Let sessions begin and end twice in one plugin host."""
    agent = FakeAgent()
    plugin = FallbackPlugin(clock=agent.clock)
    host = PluginHost(agent)
    host.load(explicit={"fallback": plugin}, builtins=False, entry_points=False)
    agent.publish = lambda raw, sequence: host.publish(raw, read_event(raw, sequence=sequence))
    settings = Settings.model_validate({"fallback": SETTINGS, "health": {"file": str(health_file)}})
    rounds = Rounds(case, agent, plugin)
    async with anyio.create_task_group() as tasks:
        await tasks.start(host.run)
        await host.settings_changed(settings)
        await rounds.begin(warm_up := range(WARM_UP_SESSIONS))
        await rounds.delete(warm_up)
        await rounds.begin(warm_up)
        await rounds.fall_quiet(warm_up)
        bare = gauge()
        await rounds.begin(first := range(sessions))
        held = gauge() - bare
        await rounds.delete(first)
        await rounds.another_day()
        deleted = gauge() - bare
        await rounds.begin(second := range(sessions, sessions + int(SECOND_ROUND * sessions)))
        await rounds.fall_quiet(second)
        quiet = gauge() - bare
        await host.stop()
    return Figures(held, deleted, quiet)


async def settle() -> None:
    """Wait until nobody has anything to do, and the tasks that ended are gone."""
    await anyio.wait_all_tasks_blocked()
    for _ in range(3):
        await checkpoint()


def session_id(number: int) -> str:
    """Return the id of a session."""
    return f"ses_{number:026}"


def check_tracked(plugin: FallbackPlugin, case: Case, numbers: range) -> None:
    """Make sure that sessions are where their case wants them, or the figures would be worth nothing."""
    for number in numbers:
        session = plugin.engine.session(session_id(number))
        assert session is not None
        switched = session.state is not None and session.state.current != PRIMARY
        assert switched == (case == "switched"), f"a {case} session is on {session.state}"
        assert (session.switch is not None) == (case == "mid-switch")


def check_forgotten(plugin: FallbackPlugin, numbers: range) -> None:
    """Make sure that no session is known any more."""
    assert not any(plugin.engine.session(session_id(number)) for number in numbers), "a session did not end"


def traced_bytes() -> int:
    """Return the bytes of Python objects."""
    gc.collect()
    return tracemalloc.get_traced_memory()[0]


def own_resident_bytes() -> int:
    """Return the process's memory in RAM."""
    gc.collect()
    return resident_bytes(os.getpid())


def measure(case: Case, gauge: Gauge, sessions: int) -> Figures:
    """Take the figures of one case; call it in a fresh process."""
    logging.disable()  # a bridge writes to a file
    if gauge == "traced":
        tracemalloc.start()
    read = traced_bytes if gauge == "traced" else own_resident_bytes
    with tempfile.TemporaryDirectory() as folder:
        return anyio.run(figures, case, sessions, read, Path(folder, "health.sqlite3"))


def main() -> int:
    """Print the figures; return 1 if a session costs too much or leaves something behind."""
    sessions = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    print(f"{sessions:,} sessions; budget {BUDGET_BYTES:,.0f} bytes each")
    print(f"{'':<22}{'bytes each':>11}{'to budget':>11}{'held MB':>9}{'deleted MB':>12}{'quiet MB':>10}")
    over = False
    with ProcessPoolExecutor(1, mp_context=get_context("spawn"), max_tasks_per_child=1) as processes:
        for case in CASES:
            for gauge in ("traced", "resident"):
                found = processes.submit(measure, case, gauge, sessions).result()
                each = found.held / sessions
                over |= each > BUDGET_BYTES and case not in IN_FLIGHT
                if gauge == "traced":  # an allocator may keep pages, so RAM alone proves no leak
                    over |= max(found.deleted, found.quiet) > LEFT_OVER * found.held
                    over |= found.quiet - found.deleted > GROWTH * found.held
                name = f"{case}, {gauge}"
                print(
                    f"{name:<22}{each:>11,.0f}{each / BUDGET_BYTES:>11.2f}{megabytes(found.held):>9}"
                    f"{megabytes(found.deleted):>12}{megabytes(found.quiet):>10}"
                )
    print("mid-switch: with an open call and its task for each session; shown, not held against the budget")
    return int(over)


def megabytes(count: int) -> str:
    """Write bytes as megabytes."""
    return f"{count / 1e6:.2f}"


if __name__ == "__main__":
    sys.exit(main())
