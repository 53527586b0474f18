"""The tasks of the dispatcher: they go on when whoever asked for them, or its host's task, is cancelled."""

from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar, TypeVarTuple, Unpack

import anyio
from anyio import TASK_STATUS_IGNORED
from anyio.abc import TaskGroup, TaskStatus
from anyio.from_thread import BlockingPortal

from fallback_plugin.agent.dispatch.reply import Reply
from fallback_plugin.errors import AgentError

_Value = TypeVar("_Value")
_Arguments = TypeVarTuple("_Arguments")


class OwnTasks:
    """A task group out of reach of any cancel scope around it, and a way into it for other threads."""

    def __init__(self) -> None:
        self._group: TaskGroup | None = None
        self._portal: BlockingPortal | None = None
        self._stop_requested = anyio.Event()
        self._ended = anyio.Event()

    @property
    def is_stopping(self) -> bool:
        """Whether a stop was asked for."""
        return self._stop_requested.is_set()

    @property
    def has_ended(self) -> bool:
        """Whether no task is left, or there never was one."""
        return self._group is None or self._ended.is_set()

    @property
    def portal(self) -> BlockingPortal:
        """The way in for other threads. Raises `AgentError` if there is none."""
        self.check_open()
        if self._portal is None:
            raise _not_running()
        return self._portal

    def check_open(self) -> None:
        """Raise `AgentError` with status 503 unless new work may be asked for."""
        if self._group is None or self.is_stopping:
            raise AgentError(
                "the host does not run, or is stopping: try again when it has started", status=503
            )

    def start(
        self, call: Callable[[Unpack[_Arguments]], Coroutine[Any, Any, object]], *arguments: *_Arguments
    ) -> None:
        """Start a task."""
        if self._group is None:
            raise _not_running()
        self._group.start_soon(call, *arguments)

    async def ask(self, call: Callable[[], Awaitable[_Value]]) -> _Value:
        """Make a call in a task and wait for its answer."""
        reply: Reply[_Value] = Reply()

        async def answer() -> None:
            try:
                reply.give(await call())
            except Exception as error:  # noqa: BLE001 -- it is the answer
                reply.fail(error)

        self.start(answer)
        return await reply.get()

    async def run(
        self, stop: Callable[[], None], *, task_status: TaskStatus[None] = TASK_STATUS_IGNORED
    ) -> None:
        """Have tasks until `request_stop` or cancellation; then call ``stop`` and wait for their ends."""
        async with anyio.create_task_group() as outer:
            await outer.start(self._shielded)
            task_status.started()
            try:
                await self._stop_requested.wait()
            finally:
                self._stop_requested.set()
                stop()

    def request_stop(self) -> None:
        """Let `run` end."""
        self._stop_requested.set()

    async def pause(self, seconds: float) -> None:
        """Sleep, no longer than until a stop is asked for."""
        with anyio.move_on_after(seconds):
            await self._stop_requested.wait()

    async def until_ended(self) -> None:
        """Wait until no task is left."""
        if not self.has_ended:
            await self._ended.wait()

    async def _shielded(self, *, task_status: TaskStatus[None]) -> None:
        with anyio.CancelScope(shield=True):
            async with anyio.create_task_group() as self._group, BlockingPortal() as self._portal:
                task_status.started()
                await self._stop_requested.wait()
            self._ended.set()


def _not_running() -> AgentError:
    return AgentError("the host does not run, or is stopping: try again when it has started", status=503)
