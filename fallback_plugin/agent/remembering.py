"""The memory of the host's sessions: who is told of completed turns, and when; what is open for that."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

import anyio
from anyio import TASK_STATUS_IGNORED
from anyio.abc import TaskStatus

from fallback_plugin.agent.memory.ledger import MemoryLedger, Provider
from fallback_plugin.agent.memory.open_sessions import OpenSessions, close
from fallback_plugin.agent.memory.plugin_provider import MemoryPlugins
from fallback_plugin.agent.memory.stored import StoredSegments
from fallback_plugin.agent.memory.worker import CommitWorker
from fallback_plugin.agent.records import HostEvent
from fallback_plugin.agent.store import Store
from fallback_plugin.errors import AgentError
from fallback_plugin.hookspecs import MemorySegment
from fallback_plugin.plugins import PluginHost

PLUGINS: Final = "plugins"
"""The owner key of turns that are committed to whatever plugins keep memory then."""

DRAIN_S: Final = 10.0
"""How long an orderly end waits for providers; what is left is committed after the next start."""

CLOSE_S: Final = 5.0
"""How long it waits after that for what they have open."""

OPEN_AT_ONCE: Final = 32
"""Of how many sessions the memory stays open: enough for those a person goes back and forth between."""


class Remembering:
    """Commits completed turns to the plugins that keep them, at boundaries and at the end.

    A boundary is the beginning of another session in place of one, the closing of what a plugin has open,
    and the end of the host.

    Args:
        store: where the turns are noted.
        plugins: the plugins.
        is_live: whether a run of a session is under way.
        clock: seconds since the epoch.
    """

    def __init__(
        self,
        store: Store,
        plugins: PluginHost,
        *,
        is_live: Callable[[str], bool],
        clock: Callable[[], float],
    ) -> None:
        self._plugins = MemoryPlugins(plugins)
        self._ledger = MemoryLedger(StoredSegments(store), self._provider, clock=clock)
        self._worker = CommitWorker(self._ledger, clock=clock)
        self._open = OpenSessions(self._ledger, is_live=is_live, start=self._worker.start, limit=OPEN_AT_ONCE)
        self._opening: dict[str, anyio.Event] = {}
        store.listen(self._follow)

    async def run(self, *, task_status: TaskStatus[None] = TASK_STATUS_IGNORED) -> None:
        """Commit what is due, until cancelled."""
        await self._worker.run(task_status=task_status)

    async def open(self, session_id: str) -> str | None:
        """Have a session's memory open for its turn; return who is owed it, None if nobody keeps any.

        Cancelled by a stop of the turn; what is being opened is kept for the next one.
        """
        if self._plugins.open_sessions and self._open.get(session_id) is None:
            if session_id not in self._opening:
                self._opening[session_id] = self._worker.start(partial(self._open_now, session_id))
            await self._opening[session_id].wait()
        if not self._plugins.keep_turns:
            return None
        return self._ledger.owner(session_id) or PLUGINS

    def left(self, session_id: str) -> None:
        """Note that a person has left a session for another one: its turns are committed beside the rest."""
        self._worker.commit_soon(session_id)

    def forget(self, session_id: str) -> None:
        """Close what is open for a session that is gone, and its turns with it."""
        self._worker.start(partial(self._forget, session_id))

    def settings_changed(self) -> None:
        """Let plugins be asked again what is to be open: it may depend on their settings."""
        self._open.question()

    async def quiet(self) -> None:
        """Wait for what is done in the background."""
        await self._worker.quiet()

    async def drain(self) -> None:
        """Commit what there is and close what is open, before the end."""
        await self._worker.drain(DRAIN_S)
        with anyio.move_on_after(CLOSE_S):
            await self._open.close()

    def _follow(self, events: Sequence[HostEvent]) -> None:
        """Follow sessions that go on under another id."""
        for event in events:
            if event.type == "session.compacted":
                old_id, new_id = event.properties["sessionID"], event.properties["continuedBy"]
                self._ledger.rotate(old_id, new_id)
                self._open.rotate(old_id, new_id)

    async def _forget(self, session_id: str) -> None:
        if (opening := self._opening.get(session_id)) is not None:
            await opening.wait()
        await self._open.evict(session_id)

    async def _open_now(self, session_id: str) -> None:
        try:
            memory = await self._plugins.open(session_id)
        finally:
            del self._opening[session_id]
        if memory is not None:
            self._open.open(session_id, memory)

    def _provider(self, owner_key: str) -> Provider | None:
        if owner_key == PLUGINS:
            return self._tell if self._plugins.keep_turns else None
        return self._tell if self._plugins.open_sessions else None

    async def _tell(self, segment: MemorySegment) -> None:
        """Tell all plugins of a segment, each whatever the others do."""
        try:
            await self._plugins.tell(segment)
        finally:
            if self._plugins.open_sessions:
                await self._commit_to_open(segment)

    async def _commit_to_open(self, segment: MemorySegment) -> None:
        """Commit to the session's handle; if there is none for its owner, to one opened for this alone."""
        owner_key = None if segment.owner_key == PLUGINS else segment.owner_key
        memory = self._open.find(segment.session_id, owner_key)
        if memory is not None:
            await self._plugins.commit(memory, segment)
            return
        memory = await self._plugins.open(segment.session_id, owner_key)
        if memory is None:
            raise AgentError(f"memory segment {segment.key}: no plugin opens a memory for {owner_key!r}")
        try:
            await self._plugins.commit(memory, segment)
        finally:
            await close(memory)
