"""A host that takes calls and never answers one."""

from collections.abc import Awaitable, Callable
from typing import Any

import anyio
from anyio.abc import TaskGroup

from fallback_plugin.fallback.plugin import FallbackPlugin
from fallback_plugin.host_client import HostKind
from fallback_plugin.wire.event import read_event
from tests.fallback.stage import api_error


class StuckHost:
    """Keeps the names of the calls; the work given to it runs beside the hooks, in ``tasks``."""

    kind: HostKind = "serve"
    directory = "/project"

    def __init__(self, tasks: TaskGroup) -> None:
        self._tasks = tasks
        self.calls: list[str] = []

    def start_soon(self, function: Callable[..., Awaitable[None]], *args: object) -> None:
        self._tasks.start_soon(function, *args)  # type: ignore[arg-type]  # coroutines all the same

    def __getattr__(self, name: str) -> Callable[..., Awaitable[Any]]:
        async def never_answered(*_: object, **__: object) -> Any:
            self.calls.append(name)
            await anyio.sleep_forever()

        return never_answered


def event(kind: str, **properties: Any) -> Any:
    """Return an event of the session ``ses_1``."""
    return read_event({"type": kind, "properties": {"sessionID": "ses_1", **properties}})


def refuse_key(plugin: FallbackPlugin, host: Any) -> None:
    """Let the first model of a turn refuse its key."""
    named = {"providerID": "fake", "modelID": "primary"}
    for number, role in ((1, "user"), (2, "assistant")):
        info = {"id": f"msg_{number}", "sessionID": "ses_1", "role": role, "parentID": "msg_1"}
        plugin.message_updated(event("message.updated", info={**info, "model": named, **named}), host)
    plugin.session_error(event("session.error", error=api_error(401)), host)
