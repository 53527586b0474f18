"""The memory providers that are plugins, reached through their hook."""

from fallback_plugin.agent.memory.ledger import Provider
from fallback_plugin.errors import AgentError
from fallback_plugin.hookspecs import MemorySegment
from fallback_plugin.plugins import PluginHost


def plugin_provider(host: PluginHost) -> Provider:
    """Return a provider that asks every plugin to keep a segment; all have to."""

    async def tell(segment: MemorySegment) -> None:
        failed = await host.notify("commit_session_memory", session_id=segment.session_id, segment=segment)
        if failed:
            names = ", ".join(failed)
            raise AgentError(
                f"memory segment {segment.key}: not kept by plugin {names}; the log has the reason"
            )

    return tell
