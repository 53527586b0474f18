"""What both doors to OpenCode read from the answer to a call."""

from typing import Final

from fallback_plugin.errors import HostCallError
from fallback_plugin.events import StoredMessage
from fallback_plugin.host_client import SessionInfo
from fallback_plugin.wire.fields import Json, optional_object, required_text, text
from fallback_plugin.wire.message import read_history

FIRST_FAILURE: Final = 400
"""The lowest HTTP status that means a call failed."""

_UNAUTHORIZED: Final = 401


def read_session(raw: Json) -> SessionInfo:
    """Read a session.

    Raises:
        WireError: if it has no id.
    """
    return SessionInfo(
        id=required_text(raw, "id"),
        parent_id=text(raw, "parentID") or None,
        agent=text(raw, "agent") or None,
    )


def read_answer(raw: object, call: str) -> StoredMessage:
    """Read the message that a prompt was answered with.

    Raises:
        HostCallError: if it is none.
    """
    history = read_history([raw])
    if not history:
        raise HostCallError(f"{call}: the host answered without a message")
    return history[0]


def refusal_text(status: int, body: object) -> str:
    """Say why the host refused a call: its own words where it has any.

    They stand in ``{name, data: {message}}`` or in ``{_tag, message}``; a refused password has no body.
    """
    source: Json = body if isinstance(body, dict) else {}
    data = optional_object(source, "data") or {}
    words = text(data, "message") or text(source, "message") or text(source, "name")
    if words:
        return words
    if status == _UNAUTHORIZED:
        return "wrong or missing password, the one in the server's OPENCODE_SERVER_PASSWORD"
    return "refused by OpenCode"


def failure_text(error: Exception) -> str:
    """Say what went wrong below HTTP; some errors have no words of their own."""
    return str(error) or type(error).__name__
