"""What a host offers its plugins, whatever the host is.

Every call has a deadline of its own and raises `HostCallError` (or its subclass for a missed deadline);
nothing here waits for a turn to end.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final, Literal, Protocol, TypeAlias

from fallback_plugin.events import StoredMessage
from fallback_plugin.wire.model_catalog import ModelCatalog
from fallback_plugin.wire.prompt import Prompt
from fallback_plugin.wire.toast import Toast

HostKind: TypeAlias = Literal["serve", "tui", "run", "acp", "attach", "agent"]

ENDS_AT_IDLE: Final = frozenset[HostKind]({"run", "acp"})
"""Hosts in which a turn counts as over at its session's first idle, so that no replay may end its run."""


STOPPED: Final = 412
"""The status of a call that came after a stop of the user which was not known when it was decided on."""

OUTDATED: Final = 417
"""The same of a message, where the call is only right without it."""


@dataclass(frozen=True, slots=True)
class Receipt:
    """Where a call stands among the host's events.

    ``sent_after`` is the sequence of the last event emitted before the host got the call,
    ``answered_after`` of the last one before it answered. None where the host cannot tell.

    ``ended`` is False if an abort was answered while the run was still ending: somebody else's abort was
    there first. ``aborted`` is False if there was nothing to abort: the run was ending by itself.
    """

    sent_after: int | None = None
    answered_after: int | None = None
    ended: bool = True
    aborted: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionInfo:
    """A session; ``parent_id`` names the session whose tool started it, None for one a person started."""

    id: str
    parent_id: str | None = None
    agent: str | None = None


class HostCalls(Protocol):
    """The calls an adapter offers for its host."""

    @property
    def kind(self) -> HostKind:
        """How the host runs: a server, the terminal UI, one command, attached over HTTP, or our own."""
        ...

    @property
    def directory(self) -> str:
        """The project folder this host instance works in."""
        ...

    async def abort(self, session_id: str, *, after: int | None = None, run_over: bool = False) -> Receipt:
        """Stop the session's run. When this returns, the run is over.

        With ``after``, the sequence of the last event that the caller knows, the call is refused (status 412)
        if the user has stopped the session since: it would stop what the user does next. With ``run_over``,
        where nothing was left to stop, also if the user has sent a message since (status 417). Only the
        bridge of OpenCode can tell of stops, and it or a server of messages; other hosts carry the call out.
        """
        ...

    async def session(self, session_id: str) -> SessionInfo:
        """Look one session up."""
        ...

    async def messages(self, session_id: str) -> list[StoredMessage]:
        """Return the session's history, oldest first."""
        ...

    async def models(self) -> ModelCatalog:
        """Return the providers that are connected, their models, and what the host knows of these."""
        ...

    async def prompt(self, session_id: str, prompt: Prompt, *, after: int | None = None) -> Receipt:
        """Hand a prompt in. Success means accepted: only content of the new model shows that it runs.

        ``after`` is as in `abort`; a turn that is to run again in place is refused with status 417 if the
        user has sent a message since.
        """
        ...

    async def run_turn(self, session_id: str, prompt: Prompt, *, deadline_s: float) -> StoredMessage:
        """Hand a prompt in and wait for its turn to end; return the last message of the answer."""
        ...

    async def revert(self, session_id: str, message_id: str) -> None:
        """Hide a message and all after it, and undo their changes to files; the next prompt deletes them.

        Refused (status 409) while the session runs: abort first.
        """
        ...

    async def unrevert(self, session_id: str) -> None:
        """Show again what `revert` hid, and redo its changes to files, as long as no prompt has come since.

        Refused (status 409) while the session runs. Without anything hidden it changes nothing.
        """
        ...

    async def delete_message(self, session_id: str, message_id: str) -> None:
        """Take one message out of the history, whatever stands around it; files stay as they are.

        Refused (status 409) while the session runs: abort first. One that is not there counts as deleted.
        """
        ...

    async def give_up(self, session_id: str, agent: str | None, *, flowing: bool = False) -> None:
        """Leave the model that an agent of the session waits for, so that `model_attempt_failed` is asked.

        With ``flowing`` also one whose answer has begun: it breaks off, and the host sees a failed run.
        Refused (status 404) if no request is under way that this could be done to.
        """
        ...

    async def toast(self, toast: Toast, *, session_id: str | None = None, after: int | None = None) -> None:
        """Show a note to the person at the host, if one is there.

        One about a session's turn names ``session_id`` and ``after``, as in `abort`: it is not shown (status
        412) if the user has stopped the session since.
        """
        ...


class HostClient(HostCalls, Protocol):
    """What a plugin gets: the calls, and a place for work that outlasts a hook."""

    def start_soon(self, function: Callable[..., Awaitable[None]], *args: object) -> None:
        """Run ``function(*args)`` beside the hooks, until it ends or the host stops.

        Use it for whatever outlasts a hook. An exception is logged with the plugin's name and
        goes no further.
        """
        ...
