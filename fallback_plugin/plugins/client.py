"""One plugin's own view of its host."""

from collections.abc import Awaitable, Callable
from typing import TypeAlias

from fallback_plugin.events import StoredMessage
from fallback_plugin.host_client import HostCalls, HostKind, Receipt, SessionInfo
from fallback_plugin.wire.model_catalog import ModelCatalog
from fallback_plugin.wire.prompt import Prompt
from fallback_plugin.wire.toast import Toast

Work: TypeAlias = Callable[..., Awaitable[None]]


class PluginClient:
    """A `HostClient`: the host's calls, and ``start_soon`` in the name of one plugin."""

    def __init__(self, calls: HostCalls, start_soon: Callable[[Work, tuple[object, ...]], None]) -> None:
        self._calls = calls
        self._start_soon = start_soon

    @property
    def kind(self) -> HostKind:
        """How the host runs."""
        return self._calls.kind

    @property
    def directory(self) -> str:
        """The project folder this host instance works in."""
        return self._calls.directory

    async def abort(self, session_id: str, *, after: int | None = None, run_over: bool = False) -> Receipt:
        """Stop the session's run."""
        return await self._calls.abort(session_id, after=after, run_over=run_over)

    async def session(self, session_id: str) -> SessionInfo:
        """Look one session up."""
        return await self._calls.session(session_id)

    async def messages(self, session_id: str) -> list[StoredMessage]:
        """Return the session's history, oldest first."""
        return await self._calls.messages(session_id)

    async def models(self) -> ModelCatalog:
        """Return the connected providers, their models, and what the host knows of these."""
        return await self._calls.models()

    async def prompt(self, session_id: str, prompt: Prompt, *, after: int | None = None) -> Receipt:
        """Hand a prompt in."""
        return await self._calls.prompt(session_id, prompt, after=after)

    async def run_turn(self, session_id: str, prompt: Prompt, *, deadline_s: float) -> StoredMessage:
        """Hand a prompt in and wait for its turn to end."""
        return await self._calls.run_turn(session_id, prompt, deadline_s=deadline_s)

    async def revert(self, session_id: str, message_id: str) -> None:
        """Hide a message and all after it; the next prompt deletes them."""
        await self._calls.revert(session_id, message_id)

    async def unrevert(self, session_id: str) -> None:
        """Show again what a revert hid."""
        await self._calls.unrevert(session_id)

    async def delete_message(self, session_id: str, message_id: str) -> None:
        """Take one message out of the history."""
        await self._calls.delete_message(session_id, message_id)

    async def give_up(self, session_id: str, agent: str | None, *, flowing: bool = False) -> None:
        """Leave the model that an agent of the session is waiting for."""
        await self._calls.give_up(session_id, agent, flowing=flowing)

    async def toast(self, toast: Toast, *, session_id: str | None = None, after: int | None = None) -> None:
        """Show a note to the person at the host."""
        await self._calls.toast(toast, session_id=session_id, after=after)

    def start_soon(self, function: Work, *args: object) -> None:
        """Run ``function(*args)`` beside the hooks, until it ends or the host stops.

        Raises:
            RuntimeError: if the host does not run, or no longer.
        """
        self._start_soon(function, args)
