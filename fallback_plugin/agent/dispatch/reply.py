"""An answer to wait for. Who waits may be cancelled; the work goes on."""

from typing import Generic, TypeVar

import anyio

_Value = TypeVar("_Value")


class Reply(Generic[_Value]):
    """What a task of the dispatcher will answer to whoever asked for it. The first answer counts."""

    def __init__(self) -> None:
        self._given = anyio.Event()
        self._values: list[_Value] = []
        self._error: Exception | None = None

    def give(self, value: _Value) -> None:
        """Answer."""
        if not self._given.is_set():
            self._values.append(value)
            self._given.set()

    def fail(self, error: Exception) -> None:
        """Let those who wait raise ``error``."""
        if not self._given.is_set():
            self._error = error
            self._given.set()

    async def get(self) -> _Value:
        """Wait for the answer."""
        await self._given.wait()
        if self._error is not None:
            raise self._error
        return self._values[0]
