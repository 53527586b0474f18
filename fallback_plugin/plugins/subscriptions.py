"""Which hook an event goes to, and what a host need send at all."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Final

from fallback_plugin import events
from fallback_plugin.events import Event
from fallback_plugin.hookspecs import ACTIVITY_EVERY_S

EVERY_TYPE: Final = "*"
"""Stands for all event types in `Subscriptions`."""

HOOKS: Final[Mapping[type[Event], str]] = {
    events.SessionCreated: "session_created",
    events.SessionDeleted: "session_deleted",
    events.SessionStatus: "session_status",
    events.SessionIdle: "session_idle",
    events.SessionAbortRequested: "session_abort_requested",
    events.ModelRequested: "model_requested",
    events.SessionError: "session_error",
    events.SessionCompacted: "session_compacted",
    events.MessageUpdated: "message_updated",
    events.MessagePartUpdated: "message_part_updated",
    events.MessageRemoved: "message_removed",
}
"""The narrow hook of each class of event. Bare events have none; text deltas have `SAMPLED_HOOK`."""

SAMPLED_HOOK: Final = "message_activity"
"""The hook that gets a text delta of a session once in `ACTIVITY_EVERY_S`."""

_HOST_TYPES: Final[Mapping[str, str]] = {
    "session_created": "session.created",
    "session_deleted": "session.deleted",
    "session_status": "session.status",
    "session_idle": "session.idle",
    "session_abort_requested": "session.abort.requested",
    "model_requested": "model.requested",
    "session_error": "session.error",
    "session_compacted": "session.compacted",
    "message_updated": "message.updated",
    "message_part_updated": "message.part.updated",
    "message_removed": "message.removed",
}
_DELTA: Final = "message.part.delta"


@dataclass(frozen=True, slots=True)
class Subscriptions:
    """What some plugin wants.

    ``events`` holds the host's names of event types, or `EVERY_TYPE` alone; ``questions`` the names of
    first-result hooks. ``sampled`` maps types of which one in so many seconds will do, session by session, to
    these seconds. A host that cannot sample may send all of them.
    """

    events: frozenset[str] = frozenset()
    questions: frozenset[str] = frozenset()
    sampled: Mapping[str, float] = field(default_factory=dict)


def subscriptions(implemented: Collection[str], first_result: Collection[str]) -> Subscriptions:
    """Return what to subscribe to, given the names of the hooks that some plugin implements."""
    wanted = frozenset(implemented)
    questions = wanted & frozenset(first_result)
    if "event" in wanted:
        return Subscriptions(frozenset({EVERY_TYPE}), questions)
    types = frozenset(_HOST_TYPES[hook] for hook in wanted & _HOST_TYPES.keys())
    return Subscriptions(types, questions, {_DELTA: ACTIVITY_EVERY_S} if SAMPLED_HOOK in wanted else {})
