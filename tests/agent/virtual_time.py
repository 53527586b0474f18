"""An event loop whose clock moves only when nothing else can happen: hours pass in no time, in one order."""

import asyncio
import selectors
from collections.abc import Awaitable, Callable
from typing import Any

import anyio


class _NoWaiting(selectors.DefaultSelector):
    """Instead of waiting, moves the clock of its loop."""

    now = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
            raise RuntimeError("every task waits for another: nothing can ever happen again")
        self.now += max(timeout, 0)
        return super().select(0)


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """An asyncio loop that never waits. Without threads: it would not notice them."""

    def __init__(self) -> None:
        self._clock = _NoWaiting()
        super().__init__(self._clock)

    def time(self) -> float:
        return self._clock.now


def run_in_virtual_time(call: Callable[[], Awaitable[Any]]) -> None:
    anyio.run(call, backend_options={"loop_factory": VirtualTimeLoop})


def in_virtual_time(play: Callable[[], Awaitable[None]]) -> Callable[[], None]:
    """Make a test of a coroutine function."""

    def test() -> None:
        run_in_virtual_time(play)

    test.__doc__ = play.__doc__
    return test
