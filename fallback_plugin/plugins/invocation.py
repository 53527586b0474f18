"""Call foreign code, so that whatever it does stays with it."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from inspect import isawaitable
from typing import Any

import anyio


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a call returned, or the exception that ended it."""

    value: Any = None
    error: BaseException | None = None


async def attempt(
    function: Callable[..., object], *arguments: object, deadline_s: float | None = None
) -> Outcome:
    """Call a plain or async function; return its result or its exception.

    An async one is cancelled at the deadline, which counts as a `TimeoutError`; a plain one cannot be cut.
    Only a cancellation that was asked for from outside passes through.
    """
    try:
        result = function(*arguments)
        if not isawaitable(result):
            return Outcome(result)
        with anyio.move_on_after(deadline_s):
            return Outcome(await result)
        return Outcome(error=TimeoutError(f"it was cut after {deadline_s:g} s"))
    except (Exception, SystemExit) as error:  # noqa: BLE001 -- foreign code may raise anything
        return Outcome(error=error)
    except asyncio.CancelledError as error:
        # A plugin that awaited something cancelled by itself raises this too; nobody cancelled us then.
        if _cancellation_requested():
            raise
        return Outcome(error=error)


def _cancellation_requested() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
