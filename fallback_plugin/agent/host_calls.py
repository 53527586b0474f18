"""What our own host offers its plugins: the calls of `HostCalls`, made without a wire."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

import anyio

from fallback_plugin.agent.dispatch import Cancelled, Dispatcher
from fallback_plugin.agent.providers.registry import Providers
from fallback_plugin.agent.records import Json, Session, UserPrompt
from fallback_plugin.agent.turns.giving_up import GivingUp
from fallback_plugin.agent.unsupported import agent_problem, format_problem, parts_problem
from fallback_plugin.errors import AgentError, HostCallError, HostCallTimeoutError
from fallback_plugin.events import StoredMessage
from fallback_plugin.host_client import HostKind, Receipt, SessionInfo
from fallback_plugin.wire.message import read_history
from fallback_plugin.wire.model_catalog import ModelCatalog
from fallback_plugin.wire.prompt import Prompt
from fallback_plugin.wire.toast import Toast, write_toast


class CalledHost(Protocol):
    """What of the host plugins reach through their calls. What it refuses is an `AgentError`."""

    @property
    def directory(self) -> Path:
        """The project folder."""
        ...

    @property
    def models(self) -> Providers:
        """The models that may be asked."""
        ...

    @property
    def agents(self) -> Sequence[str]:
        """The names of the agents that a prompt can go to."""
        ...

    @property
    def dispatcher(self) -> Dispatcher:
        """Accepts prompts."""
        ...

    @property
    def giving_up(self) -> GivingUp:
        """Leaves a model that is waited for."""
        ...

    async def session(self, session_id: str) -> Session:
        """Look a session up."""
        ...

    async def history(self, session_id: str) -> Sequence[Json]:
        """Return a session's messages as ``{info, parts}``, oldest first."""
        ...

    async def answer(self, session_id: str, prompt: UserPrompt) -> Json:
        """Run a prompt and return the last message of its answer."""
        ...

    async def stop_session(self, session_id: str) -> Cancelled:
        """Stop what runs in a session, and wait until it has ended."""
        ...

    async def revert(self, session_id: str, message_id: str | None) -> Session:
        """Hide a message and all after it; None shows them again."""
        ...

    async def delete_message(self, session_id: str, message_id: str) -> None:
        """Delete one message."""
        ...

    def toast(self, properties: Json) -> None:
        """Show a note to everybody who looks."""
        ...


class AgentCalls:
    """Implements `HostCalls`; what the host refuses is a `HostCallError` here, as it is over HTTP."""

    def __init__(self, host: CalledHost) -> None:
        self._host = host

    @property
    def kind(self) -> HostKind:
        """How the host runs: it is our own."""
        return "agent"

    @property
    def directory(self) -> str:
        """The project folder."""
        return str(self._host.directory)

    async def abort(self, session_id: str, *, after: int | None = None, run_over: bool = False) -> Receipt:  # noqa: ARG002 -- cannot tell
        """Stop the session's run, and wait until it has ended."""
        with _refusals():
            await self._host.stop_session(session_id)
        return Receipt()

    async def session(self, session_id: str) -> SessionInfo:
        """Look one session up."""
        with _refusals():
            found = await self._host.session(session_id)
        return SessionInfo(id=found.id, parent_id=found.parent_id, agent=found.agent)

    async def messages(self, session_id: str) -> list[StoredMessage]:
        """Return the session's history, oldest first."""
        with _refusals():
            return read_history(list(await self._host.history(session_id)))

    async def models(self) -> ModelCatalog:
        """Return the models of the settings."""
        return self._host.models.catalog

    async def prompt(
        self,
        session_id: str,
        prompt: Prompt,
        *,
        after: int | None = None,  # noqa: ARG002 -- cannot tell
    ) -> Receipt:
        """Hand a prompt in."""
        with _refusals():
            await self._host.dispatcher.accept(session_id, self._user_prompt(prompt))
        return Receipt()

    async def run_turn(self, session_id: str, prompt: Prompt, *, deadline_s: float) -> StoredMessage:
        """Hand a prompt in and wait for its turn to end."""
        with _refusals():
            try:
                with anyio.fail_after(deadline_s):
                    answer = await self._host.answer(session_id, self._user_prompt(prompt))
            except TimeoutError:
                raise HostCallTimeoutError(
                    f"{session_id}: the turn did not end within {deadline_s:g} s"
                ) from None
        return read_history([answer])[0]

    async def revert(self, session_id: str, message_id: str) -> None:
        """Hide a message and all after it."""
        with _refusals():
            await self._host.revert(session_id, message_id)

    async def unrevert(self, session_id: str) -> None:
        """Show again what a revert hid."""
        with _refusals():
            await self._host.revert(session_id, None)

    async def delete_message(self, session_id: str, message_id: str) -> None:
        """Take one message out of the history."""
        with _refusals():
            await self._host.delete_message(session_id, message_id)

    async def give_up(self, session_id: str, agent: str | None, *, flowing: bool = False) -> None:
        """Leave the model that an agent of the session waits for."""
        with _refusals():
            self._host.giving_up.give_up(session_id, agent, flowing=flowing)

    async def toast(self, toast: Toast, *, session_id: str | None = None, after: int | None = None) -> None:  # noqa: ARG002 -- cannot tell
        """Show a note to everybody who looks."""
        self._host.toast(write_toast(toast))

    def _user_prompt(self, prompt: Prompt) -> UserPrompt:
        """Read a prompt. Raises `AgentError` for what this host does not do."""
        problem = (
            parts_problem(prompt.parts)
            or agent_problem(prompt.agent, self._host.agents)
            or format_problem(prompt.format)
        )
        if problem is not None:
            raise AgentError(problem)
        return UserPrompt(
            parts=prompt.parts,
            message_id=prompt.message_id,
            model=prompt.model,
            agent=prompt.agent,
            system=prompt.system,
            tools=prompt.tools,
            format=prompt.format,
            client_key=prompt.message_id if prompt.parts else None,
        )


@contextmanager
def _refusals() -> Iterator[None]:
    try:
        yield
    except AgentError as error:
        raise HostCallError(str(error), status=error.status) from error
