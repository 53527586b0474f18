"""The memory of the host's sessions: who is told of completed turns, and when."""

from collections.abc import Callable
from typing import Final

from anyio import TASK_STATUS_IGNORED
from anyio.abc import TaskStatus

from fallback_plugin.agent.memory.ledger import MemoryLedger, Provider
from fallback_plugin.agent.memory.plugin_provider import plugin_provider
from fallback_plugin.agent.memory.stored import StoredSegments
from fallback_plugin.agent.memory.worker import CommitWorker
from fallback_plugin.agent.store import Store
from fallback_plugin.plugins import PluginHost

PLUGINS: Final = "plugins"
"""The owner key of turns that are committed to the plugins of this host."""

HOOK: Final = "commit_session_memory"

DRAIN_S: Final = 10.0
"""How long an orderly end waits for providers; what is left is committed after the next start."""


class Remembering:
    """Commits completed turns to the plugins that keep them, at boundaries and at the end.

    A boundary is the beginning of another session in place of one, and the end of the host.
    """

    def __init__(self, store: Store, plugins: PluginHost, *, clock: Callable[[], float]) -> None:
        self._plugins = plugins
        self._ledger = MemoryLedger(StoredSegments(store), self._provider, clock=clock)
        self._worker = CommitWorker(self._ledger, clock=clock)

    def owner(self) -> str | None:
        """Return who is owed the turns that complete now; None if nobody keeps any."""
        return PLUGINS if self._plugins.implements(HOOK) else None

    async def run(self, *, task_status: TaskStatus[None] = TASK_STATUS_IGNORED) -> None:
        """Commit what is due, until cancelled."""
        await self._worker.run(task_status=task_status)

    def left(self, session_id: str) -> None:
        """Note that a person has left a session for another one: its turns are committed beside the rest."""
        self._worker.commit_soon(session_id)

    async def drain(self) -> None:
        """Commit what there is, before the end."""
        await self._worker.drain(DRAIN_S)

    def _provider(self, owner_key: str) -> Provider | None:
        return plugin_provider(self._plugins) if owner_key == PLUGINS and self.owner() else None
