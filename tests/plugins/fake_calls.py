"""A host that keeps what plugins asked of it."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from time import monotonic
from typing import Any

import anyio

from fallback_plugin.errors import HostCallError
from fallback_plugin.events import SessionIdle, StoredMessage
from fallback_plugin.host_client import HostCalls, HostKind, Receipt, SessionInfo
from fallback_plugin.plugins import Limits, PluginHost
from fallback_plugin.wire.model_catalog import EVERYTHING, ModelCatalog
from fallback_plugin.wire.prompt import Prompt
from fallback_plugin.wire.toast import Toast


@dataclass
class FakeCalls:
    kind: HostKind = "serve"
    directory: str = "/project"
    parents: dict[str, str] = field(default_factory=dict)
    catalog: ModelCatalog = EVERYTHING
    toasts: list[Toast] = field(default_factory=list)
    toasted: anyio.Event = field(default_factory=anyio.Event)
    calls: list[tuple[str, str]] = field(default_factory=list)
    is_gone: bool = False

    async def abort(self, session_id: str, *, after: int | None = None, run_over: bool = False) -> Receipt:  # noqa: ARG002 -- the protocol's
        self.calls.append(("abort", session_id))
        return Receipt(sent_after=1, answered_after=2)

    async def session(self, session_id: str) -> SessionInfo:
        self.calls.append(("session", session_id))
        return SessionInfo(id=session_id, parent_id=self.parents.get(session_id))

    async def messages(self, session_id: str) -> list[StoredMessage]:
        self.calls.append(("messages", session_id))
        return []

    async def models(self) -> ModelCatalog:
        self.calls.append(("models", ""))
        return self.catalog

    async def prompt(self, session_id: str, prompt: Prompt, *, after: int | None = None) -> Receipt:  # noqa: ARG002 -- the protocol's
        self.calls.append(("prompt", f"{session_id} {prompt.model}"))
        return Receipt()

    async def run_turn(self, session_id: str, prompt: Prompt, *, deadline_s: float) -> StoredMessage:  # noqa: ARG002 -- the protocol's
        self.calls.append(("run_turn", f"{session_id} {prompt.model}"))
        raise HostCallError("nobody answers")

    async def give_up(self, session_id: str, agent: str | None, *, flowing: bool = False) -> None:  # noqa: ARG002 -- the protocol's
        self.calls.append(("give_up", f"{session_id} {agent}"))

    async def unrevert(self, session_id: str) -> None:
        self.calls.append(("unrevert", session_id))

    async def revert(self, session_id: str, message_id: str) -> None:
        self.calls.append(("revert", f"{session_id} {message_id}"))

    async def delete_message(self, session_id: str, message_id: str) -> None:
        self.calls.append(("delete_message", f"{session_id} {message_id}"))

    async def toast(self, toast: Toast, *, session_id: str | None = None, after: int | None = None) -> None:  # noqa: ARG002 -- the protocol's
        if self.is_gone:
            raise HostCallError("the host is gone")
        self.toasts.append(toast)
        self.toasted.set()


class Clock:
    """A clock that stands still until it is moved."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


def host_of(
    *plugins: object,
    calls: HostCalls | None = None,
    limits: Limits | None = None,
    clock: Callable[[], float] = monotonic,
    **named: object,
) -> PluginHost:
    """Return a host with these plugins and no others, named ``p0``, ``p1``, … unless they have a name."""
    host = PluginHost(calls or FakeCalls(), limits=limits, clock=clock)
    explicit = {f"p{number}": plugin for number, plugin in enumerate(plugins)} | named
    errors = host.load(explicit=explicit, builtins=False, entry_points=False)
    assert errors == ()
    return host


@asynccontextmanager
async def running(host: PluginHost) -> AsyncIterator[PluginHost]:
    """Run a host around a block; at its end what was published has been delivered."""
    async with anyio.create_task_group() as tasks:
        await tasks.start(host.run)
        try:
            yield host
        finally:
            await host.stop()


def idle(session_id: str, sequence: int | None = None) -> SessionIdle:
    """Return a small state-bearing event."""
    return SessionIdle(type="session.idle", session_id=session_id, sequence=sequence)


def publish(host: PluginHost, *events: Any) -> None:
    """Publish events with a raw form that carries their type."""
    for event in events:
        host.publish({"type": event.type}, event)
