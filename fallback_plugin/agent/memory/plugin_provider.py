"""The memory providers that are plugins, reached through their hooks."""

from typing import Final

from fallback_plugin.errors import AgentError
from fallback_plugin.hookspecs import NOTIFY_DEADLINE_S, MemorySegment, OpenMemory
from fallback_plugin.plugins import PluginHost
from fallback_plugin.plugins.invocation import attempt

COMMIT_HOOK: Final = "commit_session_memory"
OPEN_HOOK: Final = "open_session_memory"


class MemoryPlugins:
    """The plugins of a host that keep memory: with something open for each session, or without."""

    def __init__(self, plugins: PluginHost) -> None:
        self._plugins: Final = plugins

    @property
    def open_sessions(self) -> bool:
        """Whether one of them has something open for sessions."""
        return self._plugins.implements(OPEN_HOOK)

    @property
    def keep_turns(self) -> bool:
        """Whether there is any to be told of turns."""
        return self.open_sessions or self._plugins.implements(COMMIT_HOOK)

    async def open(self, session_id: str, owner_key: str | None = None) -> OpenMemory | None:
        """Return the plugin's own object for a session; None if it has none, or not in time."""
        memory: OpenMemory | None = await self._plugins.ask(
            OPEN_HOOK, session_id=session_id, owner_key=owner_key
        )
        return memory

    async def commit(self, memory: OpenMemory, segment: MemorySegment) -> None:
        """Have the plugin that opened something keep a segment. Raises `AgentError` if it does not."""
        outcome = await attempt(memory.commit, segment, deadline_s=NOTIFY_DEADLINE_S)
        if outcome.error is not None:
            raise AgentError(
                f"memory segment {segment.key}: not kept by {memory.owner_key!r}: {outcome.error}"
            ) from outcome.error

    async def tell(self, segment: MemorySegment) -> None:
        """Have those keep a segment that open nothing; all have to. Raises `AgentError` if one does not."""
        failed = await self._plugins.notify(COMMIT_HOOK, session_id=segment.session_id, segment=segment)
        if failed:
            names = ", ".join(failed)
            raise AgentError(
                f"memory segment {segment.key}: not kept by plugin {names}; the log has the reason"
            )
