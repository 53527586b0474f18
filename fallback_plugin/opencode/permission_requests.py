"""Answer OpenCode's permission requests with the verdicts of plugins.

Measured on OpenCode 1.18.33: its plugin hook ``permission.ask`` is typed and never called. It publishes
``permission.asked``, shows the request to the user, and takes the first reply, whoever sends it. A rejection
rejects all open requests of the session. ``opencode run`` replies by itself before any plugin can.
"""

import logging
from collections.abc import Mapping
from typing import Final, Literal, Protocol, TypeAlias

from anyio.abc import TaskGroup

from fallback_plugin.errors import HostCallError, WireError
from fallback_plugin.hookspecs import PermissionRequest, Verdict
from fallback_plugin.host_client import HostKind
from fallback_plugin.plugins import PluginHost
from fallback_plugin.wire.fields import Json, optional_object, required_object, required_text, text

logger = logging.getLogger(__name__)

PermissionReply: TypeAlias = Literal["once", "reject"]

ASKED: Final = "permission.asked"
REPLIED: Final = "permission.replied"
EVENTS: Final = frozenset({ASKED, REPLIED})
"""The event types to be heard if a plugin answers permission requests."""

DENIED: Final = "A plugin does not allow this."
"""Sent with a rejection: OpenCode hands it to the model, which goes on; without words it ends the turn."""

_REPLIES: Final[Mapping[Verdict, tuple[PermissionReply, str | None]]] = {
    "allow": ("once", None),
    "deny": ("reject", DENIED),
}


class PermissionReplies(Protocol):
    """The host call that answers a permission request."""

    async def reply_to_permission(
        self, request_id: str, reply: PermissionReply, message: str | None = None
    ) -> None:
        """Answer a request; status 404 if it is no longer open."""
        ...


class PermissionRequests:
    """Asks plugins about each request of one host, beside the user, and sends their verdict."""

    def __init__(self, plugins: PluginHost, replies: PermissionReplies, *, host_kind: HostKind) -> None:
        self._plugins = plugins
        self._replies = replies
        self._is_first = host_kind != "run"
        self._open: set[str] = set()

    @property
    def events(self) -> frozenset[str]:
        """The event types that `take` wants to see; none where no plugin's verdict can count."""
        wanted = self._is_first and "permission_ask" in self._plugins.subscriptions.questions
        return EVENTS if wanted else frozenset()

    def take(self, raw: Json, tasks: TaskGroup) -> None:
        """See an event of the host, after it was published to plugins. Plugins are asked in ``tasks``."""
        kind = raw.get("type")
        if kind not in EVENTS or not self.events:
            return
        try:
            properties = required_object(raw, "properties")
            if kind == REPLIED:
                self._open.discard(required_text(properties, "requestID"))
                return
            request = read_request(properties)
        except WireError as error:
            logger.warning("ignored an event of type %r: %s", kind, error)
            return
        self._open.add(request.id)
        tasks.start_soon(self._decide, request)

    async def _decide(self, request: PermissionRequest) -> None:
        verdict = await self._plugins.ask("permission_ask", session_id=request.session_id, request=request)
        answer = _REPLIES.get(verdict) if verdict else None
        if answer is None or request.id not in self._open:
            self._open.discard(request.id)
            return
        try:
            await self._replies.reply_to_permission(request.id, *answer)
        except HostCallError as error:
            # Most likely the user was faster.
            logger.info("a plugin's verdict on %s was not taken: %s", request.id, error)
        finally:
            self._open.discard(request.id)


def read_request(properties: Json) -> PermissionRequest:
    """Read what a ``permission.asked`` event is about.

    Raises:
        WireError: if it lacks an id, a session or the kind of permission.
    """
    patterns = properties.get("patterns")
    return PermissionRequest(
        id=required_text(properties, "id"),
        session_id=required_text(properties, "sessionID"),
        type=required_text(properties, "permission"),
        title=text(optional_object(properties, "metadata") or {}, "title") or "",
        pattern=tuple(each for each in patterns if isinstance(each, str))
        if isinstance(patterns, list)
        else (),
    )
