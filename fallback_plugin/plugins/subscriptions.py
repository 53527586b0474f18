"""Which hook an event goes to, and what a host need send at all."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final

from fallback_plugin import events
from fallback_plugin.events import Event

EVERY_TYPE: Final = "*"
"""Stands for all event types in `Subscriptions`."""

HOOKS: Final[Mapping[type[Event], str]] = {
    events.SessionCreated: "session_created",
    events.SessionDeleted: "session_deleted",
    events.SessionStatus: "session_status",
    events.SessionIdle: "session_idle",
    events.SessionError: "session_error",
    events.SessionCompacted: "session_compacted",
    events.MessageUpdated: "message_updated",
    events.MessagePartUpdated: "message_part_updated",
    events.MessageRemoved: "message_removed",
}
"""The narrow hook of each class of event. Text deltas and bare events have none: only ``event`` gets them."""

_HOST_TYPES: Final[Mapping[str, str]] = {
    "session_created": "session.created",
    "session_deleted": "session.deleted",
    "session_status": "session.status",
    "session_idle": "session.idle",
    "session_error": "session.error",
    "session_compacted": "session.compacted",
    "message_updated": "message.updated",
    "message_part_updated": "message.part.updated",
    "message_removed": "message.removed",
}


@dataclass(frozen=True, slots=True)
class Subscriptions:
    """What some plugin wants.

    ``events`` holds the host's names of event types, or `EVERY_TYPE` alone; ``questions`` the names of
    first-result hooks.
    """

    events: frozenset[str] = frozenset()
    questions: frozenset[str] = frozenset()


def subscriptions(implemented: Collection[str], first_result: Collection[str]) -> Subscriptions:
    """Return what to subscribe to, given the names of the hooks that some plugin implements."""
    wanted = frozenset(implemented)
    types = {_HOST_TYPES[hook] for hook in wanted & _HOST_TYPES.keys()}
    return Subscriptions(
        events=frozenset({EVERY_TYPE} if "event" in wanted else types),
        questions=wanted & frozenset(first_result),
    )
