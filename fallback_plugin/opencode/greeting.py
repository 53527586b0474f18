"""The host's first line, ``initialize``: what it says, and what is answered."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast, get_args

from fallback_plugin import __version__
from fallback_plugin.errors import ProtocolError
from fallback_plugin.host_client import HostKind
from fallback_plugin.opencode import ADVICE, PROTOCOL_VERSION
from fallback_plugin.wire.fields import optional_object, text

_PARSE_ERROR, _INVALID_REQUEST, _INVALID_PARAMS = -32700, -32600, -32602


class RefusedError(ProtocolError):
    """The first line is no handshake that this version can accept."""

    def __init__(self, number: int, message: str, request_id: object = None) -> None:
        super().__init__(message)
        self.number = number
        self.request_id = request_id


@dataclass(frozen=True, slots=True, kw_only=True)
class Greeting:
    """What the host said about itself.

    ``worktree`` is the root of the project's repository, ``bridge_version`` the version of the bridge file.
    """

    request_id: object
    name: str
    kind: HostKind
    directory: str
    worktree: str | None = None
    bridge_version: str | None = None


def read_greeting(line: bytes) -> Greeting:
    """Read the request ``initialize``. A kind of host this version does not know counts as a server.

    Raises:
        RefusedError: if the line is anything else, or asks for another version of the protocol.
    """
    try:
        message = json.loads(line)
    except (ValueError, RecursionError):
        raise RefusedError(_PARSE_ERROR, f"the first line should be a JSON-RPC request. {ADVICE}") from None
    if not isinstance(message, dict) or message.get("method") != "initialize" or "id" not in message:
        raise RefusedError(_INVALID_REQUEST, f"the first line should be the request 'initialize'. {ADVICE}")
    request_id = message["id"]
    params = optional_object(message, "params") or {}
    version = params.get("protocolVersion")
    if version != PROTOCOL_VERSION:
        raise RefusedError(
            _INVALID_PARAMS,
            f"fallback-plugin {__version__} speaks protocol {PROTOCOL_VERSION}, the bridge file {version!r}",
            request_id,
        )
    directory = text(params, "directory")
    if not directory:
        raise RefusedError(_INVALID_PARAMS, "'directory' should name the project's folder", request_id)
    host = optional_object(params, "host") or {}
    kind = text(host, "kind")
    return Greeting(
        request_id=request_id,
        name=text(host, "name") or "unknown",
        kind=cast("HostKind", kind) if kind in get_args(HostKind) else "serve",
        directory=directory,
        worktree=text(params, "worktree") or None,
        bridge_version=text(params, "bridge"),
    )


def welcome(greeting: Greeting) -> bytes:
    """Return the line that accepts a greeting."""
    server = {"name": "fallback-plugin", "version": __version__}
    result = {"protocolVersion": PROTOCOL_VERSION, "server": server}
    return _line({"jsonrpc": "2.0", "id": greeting.request_id, "result": result})


def refuse(refused: RefusedError) -> bytes:
    """Return the line that says why a host is refused."""
    error = {"code": refused.number, "message": str(refused)}
    return _line({"jsonrpc": "2.0", "id": refused.request_id, "error": error})


def _line(message: Mapping[str, Any]) -> bytes:
    return json.dumps(message, separators=(",", ":")).encode() + b"\n"
