"""A host's calls, counted by name."""

from collections.abc import Awaitable
from typing import TypeVar

from fallback_plugin.attach.metrics import ServerCounts
from fallback_plugin.errors import HostCallError
from fallback_plugin.events import StoredMessage
from fallback_plugin.host_client import HostCalls, HostKind, Receipt, SessionInfo
from fallback_plugin.wire.model_catalog import ModelCatalog
from fallback_plugin.wire.prompt import Prompt
from fallback_plugin.wire.toast import Toast

_Answer = TypeVar("_Answer")


class CountedCalls:
    """Implements `HostCalls` by handing every call on."""

    def __init__(self, calls: HostCalls, counts: ServerCounts) -> None:
        self._calls = calls
        self._counts = counts

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
        return await self._counted("abort", self._calls.abort(session_id, after=after, run_over=run_over))

    async def session(self, session_id: str) -> SessionInfo:
        """Look one session up."""
        return await self._counted("session", self._calls.session(session_id))

    async def messages(self, session_id: str) -> list[StoredMessage]:
        """Return the session's history, oldest first."""
        return await self._counted("messages", self._calls.messages(session_id))

    async def models(self) -> ModelCatalog:
        """Return the connected providers and their models."""
        return await self._counted("models", self._calls.models())

    async def prompt(self, session_id: str, prompt: Prompt, *, after: int | None = None) -> Receipt:
        """Hand a prompt in."""
        return await self._counted("prompt", self._calls.prompt(session_id, prompt, after=after))

    async def run_turn(self, session_id: str, prompt: Prompt, *, deadline_s: float) -> StoredMessage:
        """Hand a prompt in and wait for its turn to end."""
        return await self._counted(
            "run_turn", self._calls.run_turn(session_id, prompt, deadline_s=deadline_s)
        )

    async def revert(self, session_id: str, message_id: str) -> None:
        """Hide a message and all after it."""
        await self._counted("revert", self._calls.revert(session_id, message_id))

    async def unrevert(self, session_id: str) -> None:
        """Show again what a revert hid."""
        await self._counted("unrevert", self._calls.unrevert(session_id))

    async def delete_message(self, session_id: str, message_id: str) -> None:
        """Take one message out of the history."""
        await self._counted("delete_message", self._calls.delete_message(session_id, message_id))

    async def give_up(self, session_id: str, agent: str | None, *, flowing: bool = False) -> None:
        """Leave the model that an agent of the session is waiting for."""
        await self._counted("give_up", self._calls.give_up(session_id, agent, flowing=flowing))

    async def toast(self, toast: Toast, *, session_id: str | None = None, after: int | None = None) -> None:
        """Show a note."""
        await self._counted("toast", self._calls.toast(toast, session_id=session_id, after=after))

    async def _counted(self, name: str, call: Awaitable[_Answer]) -> _Answer:
        self._counts.calls[name] += 1
        try:
            return await call
        except HostCallError:
            self._counts.failed_calls[name] += 1
            raise
