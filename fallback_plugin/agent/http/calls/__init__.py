"""The calls of the API, by what they are about; each module describes its own and answers them."""

from collections.abc import Sequence

from fallback_plugin.agent.host import AgentHost
from fallback_plugin.agent.http.calls.about import AboutCalls
from fallback_plugin.agent.http.calls.call import Call
from fallback_plugin.agent.http.calls.events import EventCalls
from fallback_plugin.agent.http.calls.health import HealthCalls
from fallback_plugin.agent.http.calls.memory import MemoryCalls
from fallback_plugin.agent.http.calls.messages import MessageCalls
from fallback_plugin.agent.http.calls.permissions import PermissionCalls
from fallback_plugin.agent.http.calls.runs import RunCalls
from fallback_plugin.agent.http.calls.sessions import SessionCalls

__all__ = ["Call", "calls_of"]


def calls_of(host: AgentHost) -> Sequence[Call]:
    """Return all calls of a host."""
    groups = (
        AboutCalls,
        SessionCalls,
        MessageCalls,
        RunCalls,
        PermissionCalls,
        HealthCalls,
        MemoryCalls,
        EventCalls,
    )
    return [call for group in groups for call in group(host).calls]
