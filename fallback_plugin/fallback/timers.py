"""The timers of sessions. Those that watch for silence stand still while nothing is heard from the host."""

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Final

import anyio
from anyio import sleep

from fallback_plugin.fallback.effects import StartTimer, TimerName
from fallback_plugin.host_client import HostClient

SILENCES: Final = frozenset[TimerName]({"first_token", "stall"})


@dataclass(frozen=True, slots=True)
class _Timer:
    effect: StartTimer
    host: HostClient
    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)


class Timers:
    """At most one timer of each name for each session; ``fired`` is called when one is over."""

    def __init__(self, fired: Callable[[StartTimer, HostClient], None]) -> None:
        self._fired = fired
        self._running: dict[tuple[str, TimerName], _Timer] = {}
        self._held: dict[tuple[str, TimerName], _Timer] | None = None

    def __len__(self) -> int:
        """Return how many timers run."""
        return len(self._running)

    def start(self, effect: StartTimer, host: HostClient) -> None:
        """Start a timer, instead of any running timer of its name."""
        self.stop(effect.session_id, effect.name)
        timer, key = _Timer(effect, host), (effect.session_id, effect.name)
        if self._held is not None and effect.name in SILENCES:
            self._held[key] = timer
            return
        self._running[key] = timer
        host.start_soon(self._run, timer)

    def stop(self, session_id: str, name: TimerName) -> None:
        """Forget a timer, if there is one."""
        if self._held is not None:
            self._held.pop((session_id, name), None)
        if timer := self._running.pop((session_id, name), None):
            timer.scope.cancel()

    def hold(self) -> None:
        """Hold the timers that watch for silence, and those that are started from now on."""
        if self._held is not None:
            return
        held = {key: timer for key, timer in self._running.items() if key[1] in SILENCES}
        for key in held:
            self.stop(*key)
        self._held = held

    def release(self, sessions: Collection[str] | None = None) -> None:
        """Let timers run again. Those that were held have all their time before them.

        Args:
            sessions: forget those of all other sessions; None for none.
        """
        held, self._held = self._held or {}, None
        for (session_id, _), timer in held.items():
            if sessions is None or session_id in sessions:
                self.start(timer.effect, timer.host)

    async def _run(self, timer: _Timer) -> None:
        with timer.scope:
            await sleep(timer.effect.after_s)
            self._running.pop((timer.effect.session_id, timer.effect.name), None)
            self._fired(timer.effect, timer.host)
