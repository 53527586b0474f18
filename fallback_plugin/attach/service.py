"""Many servers in one process, until somebody ends it."""

import logging
import os
import signal
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

import anyio
from anyio import TASK_STATUS_IGNORED, create_tcp_listener
from anyio.abc import Listener, SocketAttribute, SocketStream, TaskStatus

from fallback_plugin.attach.folder import SettingsPlace
from fallback_plugin.attach.metrics import exposition
from fallback_plugin.attach.metrics_server import answer
from fallback_plugin.attach.server import AttachedServer, Folders
from fallback_plugin.attach.target import Target
from fallback_plugin.errors import HostCallError

logger = logging.getLogger(__name__)

LEAVE_WITHIN_S: Final = 4.5
"""How long after a signal this process is gone, whatever plugins do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """What to attach to, and how. ``metrics_port`` 0 is any free port, None no figures at all."""

    targets: Sequence[Target]
    folders: Folders
    settings: SettingsPlace
    metrics_port: int | None = None

    def run(self) -> int:
        """Serve until SIGTERM or SIGINT; return the exit status.

        It is 1 if every server was given up, else 0.

        Raises:
            OSError: if the port for the figures is not free.
        """
        return anyio.run(self._serve)

    async def _serve(self) -> int:
        port = self.metrics_port
        listener = (
            None if port is None else await create_tcp_listener(local_host="127.0.0.1", local_port=port)
        )
        servers = [AttachedServer(target, self.folders, self.settings) for target in self.targets]
        async with anyio.create_task_group() as beside:
            await beside.start(_stop_on_signal, servers)
            if listener is not None:
                beside.start_soon(_serve_metrics, servers, listener)
            async with anyio.create_task_group() as attached:
                for server in servers:
                    attached.start_soon(_run_apart, server)
            beside.cancel_scope.cancel()
        if all(server.gave_up for server in servers):
            logger.error("no server is left")
            return 1
        return 0


async def _run_apart(server: AttachedServer) -> None:
    """Run what looks after one server; a mistake of ours there may not end the others."""
    try:
        await server.run()
    except HostCallError as error:
        logger.error("%s: given up: %s", server.counts.server, error)  # noqa: TRY400 -- the words say it all
        server.gave_up = True
    except Exception:
        logger.exception("%s: given up", server.counts.server)
        server.gave_up = True


async def _stop_on_signal(
    servers: Sequence[AttachedServer], *, task_status: TaskStatus[None] = TASK_STATUS_IGNORED
) -> None:
    with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
        task_status.started()
        async for received in signals:
            logger.info("%s: stopping", received.name)
            _leave_soon()
            for server in servers:
                server.stop()


async def _serve_metrics(servers: Sequence[AttachedServer], listener: Listener[SocketStream]) -> None:
    counts = [server.counts for server in servers]
    port = listener.extra(SocketAttribute.local_port)  # noqa: S610 -- no database here
    logger.info("figures at http://127.0.0.1:%d/metrics", port)
    async with listener:
        await listener.serve(partial(answer, figures=partial(exposition, counts)))


def _leave_soon() -> None:
    """Make sure this process ends, even if a plugin's thread does not."""
    timer = threading.Timer(LEAVE_WITHIN_S, os._exit, args=(0,))
    timer.daemon = True
    timer.start()
