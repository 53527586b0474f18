"""Serving a host: settings, plugins, the port, and an orderly end."""

import logging
import os
import signal
import socket
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

import anyio
from anyio import TASK_STATUS_IGNORED
from anyio.abc import TaskStatus

from fallback_plugin.agent.host import AgentHost, Place, open_host
from fallback_plugin.agent.http.app import application
from fallback_plugin.agent.http.guard import Rules
from fallback_plugin.agent.http.server import serve
from fallback_plugin.agent.memory.digest import SessionDigests
from fallback_plugin.agent.unusable_models import model_problems
from fallback_plugin.errors import SettingsError
from fallback_plugin.fallback.plugin import FallbackPlugin
from fallback_plugin.service_log import set_log_level
from fallback_plugin.settings import (
    LoadedSettings,
    Settings,
    SettingsWatcher,
    candidate_files,
    load_and_keep,
    load_last_good,
    load_or_last_good,
)
from fallback_plugin.settings.environment import blocked_names

logger = logging.getLogger(__name__)

LEAVE_WITHIN_S: Final = 20.0
"""How long after a signal this process is gone, whatever tools and plugins do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """What to serve, and how.

    Attributes:
        place: the data folder, the project, the environment.
        settings_file: one file of settings, or None for the user's and the project's.
        listener: the port, taken already.
        rules: who may call.
        ready: called once calls are answered.
    """

    place: Place
    settings_file: Path | None
    listener: socket.socket
    rules: Rules
    ready: Callable[[], None]

    def run(self) -> None:
        """Serve until SIGTERM or SIGINT.

        Raises:
            StoreError: if the data folder cannot be used.
            SettingsError: if the settings are broken at the start, and what they were before is not known.
        """
        anyio.run(self.serve)

    async def serve(self, *, stop: anyio.Event | None = None) -> None:
        """Serve until ``stop`` is set, by default by a signal."""
        directory, environ, file = self.place.directory, self.place.environ, self.settings_file
        # What is wrong with a file is said by the watcher, once clients can hear it.
        loaded, _ = load_or_last_good(directory=directory, environ=environ, file=file)
        _warn(loaded, environ)
        settings = loaded.settings
        async with open_host(settings, self.place) as host:
            _load_plugins(host, settings, self.place.environ, file)
            current = _Settings(host, environ)
            files = candidate_files(directory=directory, worktree=None, environ=environ)
            watcher = SettingsWatcher(
                files=(file,) if file else files,
                load=partial(load_and_keep, directory=directory, environ=environ, file=file),
                recover=partial(load_last_good, directory=directory, environ=environ, file=file),
                current=loaded,
                apply=current.apply,
                refuse=current.refuse,
                in_force=current.say_in_force,
            )
            await self._serve(host, watcher, stop or anyio.Event(), listens_to_signals=stop is None)

    async def _serve(
        self, host: AgentHost, watcher: SettingsWatcher, stop: anyio.Event, *, listens_to_signals: bool
    ) -> None:
        async with anyio.create_task_group() as beside:
            if listens_to_signals:
                await beside.start(_stop_on_signal, stop)
            await beside.start(host.run)
            closed = anyio.Event()
            async with anyio.create_task_group() as serving:
                await serving.start(partial(serve, application(host, self.rules), self.listener, closed))
                beside.start_soon(watcher.run)
                self.ready()
                await stop.wait()
                await host.stop()
                closed.set()
            beside.cancel_scope.cancel()


class _Settings:
    """Takes settings that changed while the host runs."""

    def __init__(self, host: AgentHost, environ: Mapping[str, str]) -> None:
        self._host = host
        self._environ = environ

    async def apply(self, loaded: LoadedSettings) -> None:
        """Take new settings, as far as that can be done without a new start."""
        _warn(loaded, self._environ)
        level = loaded.settings.log.level
        if level != self._host.settings.log.level:
            set_log_level(level)
        await self._host.apply(loaded.settings)

    async def refuse(self, error: SettingsError) -> None:
        """Say that settings are wrong; the last good ones stay."""
        logger.error("settings are not taken: %s", error)
        message = f"{error}\nUntil that is mended, the last good settings stay."
        self._host.toast(
            {
                "title": "Fallback settings are wrong",
                "message": message,
                "variant": "error",
                "duration": 10_000,
            }
        )

    async def say_in_force(self) -> None:
        """Say that a changed file was taken."""
        message = "Settings in force."
        self._host.toast(
            {"title": "Fallback settings", "message": message, "variant": "info", "duration": 3000}
        )


def _warn(loaded: LoadedSettings, environ: Mapping[str, str]) -> None:
    """Log what is odd about settings, and which models cannot be asked with them."""
    for warning in (*loaded.warnings, *model_problems(loaded.settings, environ)):
        logger.warning("%s", warning)


def _load_plugins(host: AgentHost, settings: Settings, environ: Mapping[str, str], file: Path | None) -> None:
    block = {*settings.plugins.block, *blocked_names(environ)}
    folder = settings.memory.digests
    explicit = {"session-digests": SessionDigests(folder)} if folder else {}
    fallback = FallbackPlugin(settings_file=file)
    host.plugins.load(builtins=False, entry_points=False, explicit={"fallback": fallback}, block=block)
    host.plugins.load(builtins=False, dirs=settings.plugins.dirs, block=block, explicit=explicit)


async def _stop_on_signal(stop: anyio.Event, *, task_status: TaskStatus[None] = TASK_STATUS_IGNORED) -> None:
    with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
        task_status.started()
        async for received in signals:
            logger.info("%s: stopping", received.name)
            if stop.is_set():
                os._exit(1)  # asked twice: what is committed is stored
            _leave_soon()
            stop.set()


def _leave_soon() -> None:
    """Make sure this process ends, even if a plugin's thread does not."""
    timer = threading.Timer(LEAVE_WITHIN_S, os._exit, args=(1,))
    timer.daemon = True
    timer.start()
