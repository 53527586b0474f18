"""Asking a person whether a tool may do something, and waiting for the answer.

A rejection ends the turn, as OpenCode's does; one with words of the person's is told to the model, which
goes on with them.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias

import anyio

from fallback_plugin.agent.identifiers import NewId, new_id
from fallback_plugin.agent.records import Json
from fallback_plugin.agent.turns.hooks import TurnHooks
from fallback_plugin.agent.turns.permission import settled
from fallback_plugin.agent.turns.tools.tool import Permit
from fallback_plugin.errors import AgentError
from fallback_plugin.hookspecs import PermissionRequest
from fallback_plugin.settings import PermissionSettings

Reply: TypeAlias = Literal["once", "always", "reject"]
"""``always``: the same path or command is not asked for again in this session."""

Publish: TypeAlias = Callable[[str, Json], Awaitable[None]]
"""Publishes an event: OpenCode's ``permission.asked`` or ``permission.replied``, and its properties."""

WITHDRAWING_S: Final = 2.0
"""How long it may take to tell that a question is withdrawn, when a turn is stopped."""

DENIED: Final = "Your settings do not allow this. Do it another way, or say what you would need."
REJECTED: Final = "The user rejected permission to use this specific tool call."


class PermissionDeniedError(Exception):
    """A tool may not do it; ``ends_turn`` if the person rejected it and said no more."""

    def __init__(self, message: str, *, ends_turn: bool = False) -> None:
        super().__init__(message)
        self.ends_turn = ends_turn


@dataclass(frozen=True, slots=True, kw_only=True)
class Asking:
    """Who asks: the tool call, in its message and session."""

    session_id: str
    message_id: str
    call_id: str
    tool: str


@dataclass(slots=True)
class _Question:
    properties: Json
    answered: anyio.Event = field(default_factory=anyio.Event)
    reply: Reply = "reject"
    message: str | None = None


class Permissions:
    """Decides by the settings, then by plugins, then by the person; keeps the open questions."""

    def __init__(
        self, settings: PermissionSettings, hooks: TurnHooks, publish: Publish, *, new_id: NewId = new_id
    ) -> None:
        self.settings = settings
        self._hooks = hooks
        self._publish = publish
        self._new_id = new_id
        self._open: dict[str, _Question] = {}
        self._always: dict[str, set[tuple[str, str]]] = {}

    def questions(self) -> list[Json]:
        """Return the questions that wait for a person, oldest first."""
        return [question.properties for question in self._open.values()]

    async def reply(self, request_id: str, reply: Reply, message: str | None = None) -> None:
        """Answer a question. With a ``message`` a rejection does not end the turn.

        Raises:
            AgentError: (404) if there is no such question, or no longer.
        """
        question = self._open.pop(request_id, None)
        if question is None:
            raise AgentError(f"Permission request not found: {request_id}", status=404)
        question.reply, question.message = reply, message
        question.answered.set()
        await self._tell_replied(question, reply)

    async def require(self, asking: Asking, permit: Permit) -> None:
        """Return if the tool may go on.

        Raises:
            PermissionDeniedError: if it may not.
        """
        if (asking.tool, permit.pattern) in self._always.get(asking.session_id, ()):
            return
        verdict = settled(self.settings, asking.tool, permit.pattern)
        request_id = self._new_id("per")
        if verdict == "ask":
            request = PermissionRequest(
                id=request_id,
                session_id=asking.session_id,
                type=asking.tool,
                title=permit.title,
                pattern=(permit.pattern,),
            )
            verdict = await self._hooks.permission_ask(request) or "ask"
        if verdict == "deny":
            raise PermissionDeniedError(DENIED)
        if verdict == "ask":
            await self._ask(request_id, asking, permit)

    def carry_over(self, session_id: str, new_session_id: str) -> None:
        """Let what was always allowed in a session be so in the one that continues it."""
        if session_id in self._always:
            self._always[new_session_id] = set(self._always[session_id])

    def forget(self, session_id: str) -> None:
        """Forget what was always allowed in a session."""
        self._always.pop(session_id, None)

    async def _ask(self, request_id: str, asking: Asking, permit: Permit) -> None:
        question = _Question(
            {
                "id": request_id,
                "sessionID": asking.session_id,
                "permission": asking.tool,
                "patterns": [permit.pattern],
                "metadata": {"title": permit.title, **permit.metadata},
                "always": [permit.pattern],
                "tool": {"messageID": asking.message_id, "callID": asking.call_id},
            }
        )
        self._open[request_id] = question
        try:
            await self._publish("permission.asked", question.properties)
            await question.answered.wait()
        finally:
            if self._open.pop(request_id, None) is not None:
                with anyio.move_on_after(WITHDRAWING_S, shield=True):
                    await self._tell_replied(question, "reject")
        if question.reply == "always":
            self._always.setdefault(asking.session_id, set()).add((asking.tool, permit.pattern))
        elif question.reply == "reject":
            said = question.message
            raise PermissionDeniedError(
                f"{REJECTED} They said: {said}" if said else REJECTED, ends_turn=not said
            )

    async def _tell_replied(self, question: _Question, reply: Reply) -> None:
        properties = question.properties
        told = {"sessionID": properties["sessionID"], "requestID": properties["id"], "reply": reply}
        await self._publish("permission.replied", told)
