"""The calls of a host behind the bridge: each is one ``host/call`` that JavaScript carries out."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from fallback_plugin.errors import HostCallError, HostCallTimeoutError, ProtocolError, WireError
from fallback_plugin.events import StoredMessage
from fallback_plugin.host_client import HostKind, Receipt, SessionInfo
from fallback_plugin.opencode.answers import FIRST_FAILURE, read_answer, read_session, refusal_text
from fallback_plugin.opencode.json_rpc import Peer
from fallback_plugin.opencode.permission_requests import PermissionReply
from fallback_plugin.opencode.request_failure import read_last_request
from fallback_plugin.wire.fields import integer, optional_object
from fallback_plugin.wire.message import read_history
from fallback_plugin.wire.model_catalog import ModelCatalog, read_catalog
from fallback_plugin.wire.prompt import Prompt, write_prompt
from fallback_plugin.wire.toast import Toast, write_toast

DEADLINES_S: Final[Mapping[str, float]] = {
    "session.abort": 60.0,  # answered when the run is over, which took a host with too much to do 12 s
    "session.promptAsync": 10.0,
    "session.messages": 10.0,
    "session.revert": 10.0,
    "session.unrevert": 10.0,
    "session.deleteMessage": 10.0,
    "config.providers": 10.0,
    "permission.reply": 10.0,
    "session.get": 3.0,
    "model.giveUp": 3.0,
    "tui.showToast": 3.0,
}
"""How long the host may take for each call."""

_NOT_FOUND: Final = 404


class BridgeCalls:
    """Implements `HostCalls` over a JSON-RPC peer."""

    def __init__(self, peer: Peer, *, kind: HostKind, directory: str) -> None:
        self._peer = peer
        self._kind: HostKind = kind
        self._directory = directory

    @property
    def kind(self) -> HostKind:
        """How the host runs."""
        return self._kind

    @property
    def directory(self) -> str:
        """The project folder this host instance works in."""
        return self._directory

    async def abort(self, session_id: str, *, after: int | None = None, run_over: bool = False) -> Receipt:
        """Stop the session's run. The host answers once the run is over."""
        return _receipt(
            await self._call(
                "session.abort", {"sessionID": session_id, "after": after, "runIsOver": run_over}
            )
        )

    async def session(self, session_id: str) -> SessionInfo:
        """Look one session up."""
        result = await self._call("session.get", {"sessionID": session_id})
        try:
            return read_session(optional_object(result, "data") or {})
        except WireError as error:
            raise HostCallError(f"session.get: {error}") from error

    async def messages(self, session_id: str) -> list[StoredMessage]:
        """Return the session's history, oldest first."""
        return read_history((await self._call("session.messages", {"sessionID": session_id})).get("data"))

    async def models(self) -> ModelCatalog:
        """Return the connected providers and their models; the bridge file sends no more than the facts."""
        return read_catalog((await self._call("config.providers", {})).get("data"))

    async def prompt(self, session_id: str, prompt: Prompt, *, after: int | None = None) -> Receipt:
        """Hand a prompt in; success means accepted, not that it runs."""
        arguments = {"sessionID": session_id, "body": write_prompt(prompt), "after": after}
        return _receipt(await self._call("session.promptAsync", arguments))

    async def run_turn(self, session_id: str, prompt: Prompt, *, deadline_s: float) -> StoredMessage:
        """Hand a prompt in and wait for its turn to end."""
        arguments = {"sessionID": session_id, "body": write_prompt(prompt)}
        result = await self._call("session.prompt", arguments, deadline_s)
        try:
            last_request = read_last_request(optional_object(result, "lastRequest"))
        except WireError as error:
            raise HostCallError(f"session.prompt: {error}") from error
        return replace(read_answer(result.get("data"), "session.prompt"), last_request=last_request)

    async def revert(self, session_id: str, message_id: str) -> None:
        """Hide a message and all after it; the next prompt deletes them. Refused while the session runs."""
        await self._call("session.revert", {"sessionID": session_id, "body": {"messageID": message_id}})

    async def unrevert(self, session_id: str) -> None:
        """Show again what a revert hid, and redo its changes to files. Refused while the session runs."""
        await self._call("session.unrevert", {"sessionID": session_id})

    async def delete_message(self, session_id: str, message_id: str) -> None:
        """Take one message out of the history. Refused while the session runs."""
        await self._call("session.deleteMessage", {"sessionID": session_id, "messageID": message_id})

    async def reply_to_permission(
        self, request_id: str, reply: PermissionReply, message: str | None = None
    ) -> None:
        """Answer a permission request; refused with status 404 if it is no longer open."""
        body = {"reply": reply, "message": message} if message else {"reply": reply}
        await self._call("permission.reply", {"requestID": request_id, "body": body})

    async def give_up(self, session_id: str, agent: str | None, *, flowing: bool = False) -> None:
        """Leave the model that an agent of the session is waiting for."""
        arguments = {"sessionID": session_id, "agent": agent, "flowing": flowing}
        try:
            await self._call("model.giveUp", arguments)
        except HostCallError as error:
            if error.status != _NOT_FOUND:
                raise
            words = f"{session_id}: no request is under way that could be given up"
            raise HostCallError(words, status=error.status) from None

    async def toast(self, toast: Toast, *, session_id: str | None = None, after: int | None = None) -> None:
        """Show a note; the bridge keeps it for a moment, and until somebody can see it."""
        about = {} if session_id is None else {"sessionID": session_id, "after": after}
        await self._call("tui.showToast", {**about, "body": write_toast(toast)})

    async def _call(
        self, call: str, arguments: Mapping[str, Any], deadline_s: float | None = None
    ) -> Mapping[str, Any]:
        params = {"call": call, "arguments": arguments}
        deadline_s = DEADLINES_S[call] if deadline_s is None else deadline_s
        try:
            result = await self._peer.request("host/call", params, deadline_s=deadline_s)
        except TimeoutError:
            raise HostCallTimeoutError(f"{call}: no answer from OpenCode within {deadline_s:g} s") from None
        except ProtocolError as error:
            raise HostCallError(f"{call}: {error}") from error
        if not isinstance(result, dict) or (status := integer(result, "status")) is None:
            raise HostCallError(f"{call}: the bridge answered without a status")
        if status >= FIRST_FAILURE:
            reason = refusal_text(status, result.get("data"))
            raise HostCallError(f"{call}: {reason} (HTTP {status})", status=status)
        return result


def _receipt(result: Mapping[str, Any]) -> Receipt:
    return Receipt(sent_after=integer(result, "sentAfter"), answered_after=integer(result, "answeredAfter"))
