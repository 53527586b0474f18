"""The listening end: a port, uvicorn behind it, and a stop that does not wait for open streams."""

import socket
from collections.abc import Generator
from contextlib import contextmanager
from ipaddress import ip_address
from typing import Any, Final

import anyio
import uvicorn
from anyio import TASK_STATUS_IGNORED
from anyio.abc import TaskStatus

from fallback_plugin.agent.http.guard import App
from fallback_plugin.agent.http.patience import PatientProtocol
from fallback_plugin.errors import AgentError

LOOPBACK: Final = "127.0.0.1"

CLOSE_WITHIN_S: Final = 2
"""How long calls under way may go on once the server is to stop."""

_BACKLOG: Final = 512


def listening(host: str, port: int) -> socket.socket:
    """Take a port; 0 is any free one.

    Raises:
        AgentError: if it is taken, or the address is none of this machine's.
    """
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        # asyncio sets TCP_NODELAY on accepted sockets that name their protocol, and on no others.
        found = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        try:
            found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            found.bind(address)
            found.listen(_BACKLOG)
        except OSError:
            found.close()
            raise
    except OSError as error:
        reason = error.strerror or str(error)
        raise AgentError(
            f"cannot listen at {host}:{port}: {reason}. Choose another --port or --host."
        ) from error
    return found


def is_loopback(host: str) -> bool:
    """Tell whether an address can be reached from this machine only."""
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def url_of(listener: socket.socket) -> str:
    """Return where a port is reached."""
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


class _Server(uvicorn.Server):
    """Leaves the signals to whoever runs it."""

    @contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        yield


async def serve(
    app: App,
    listener: socket.socket,
    stop: anyio.Event,
    *,
    task_status: TaskStatus[None] = TASK_STATUS_IGNORED,
) -> None:
    """Serve ``app`` until ``stop`` is set; streams are to end by themselves then.

    ``task_status`` is told once calls are answered.
    """
    settings: dict[str, Any] = {"lifespan": "off", "ws": "none", "log_config": None, "access_log": False}
    config = uvicorn.Config(
        app,
        http=PatientProtocol,
        server_header=False,
        timeout_graceful_shutdown=CLOSE_WITHIN_S,
        **settings,
    )
    server = _Server(config)

    async def stop_when_told() -> None:
        await stop.wait()
        server.should_exit = True

    async with anyio.create_task_group() as beside:
        beside.start_soon(stop_when_told)
        task_status.started()  # the port is open: what comes before uvicorn runs waits in its queue
        with listener:
            await server.serve(sockets=[listener])
        beside.cancel_scope.cancel()
