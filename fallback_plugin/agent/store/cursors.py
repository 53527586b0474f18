"""Cursors of a message list: opaque to clients, a place in one session to us."""

import base64
import binascii
import json

from fallback_plugin.errors import AgentError


def cursor(session_id: str, position: int) -> str:
    """Return the cursor for what stands before a position."""
    return base64.urlsafe_b64encode(json.dumps([session_id, position]).encode()).decode().rstrip("=")


def position(cursor: str, session_id: str) -> int:
    """Return the position that a cursor of this session stands for.

    Raises:
        AgentError: if the server did not make it, or made it for another session.
    """
    try:
        padded = cursor + "=" * (-len(cursor) % 4)
        match json.loads(base64.b64decode(padded, altchars=b"-_", validate=True)):
            case [str(owner), int(found)] if owner == session_id and not isinstance(found, bool):
                return found
    except (binascii.Error, ValueError, RecursionError):
        pass
    raise AgentError(f"{cursor[:80]!r} is no cursor of session {session_id}; take the one of the last answer")
