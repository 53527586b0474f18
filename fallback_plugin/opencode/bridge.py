"""The bridge process: settings, plugins and the host's two pipes, put together."""

import gc
import logging
import os
import signal
import threading
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final

import anyio
from anyio.abc import TaskGroup

from fallback_plugin.errors import HostCallError, SettingsError, WireError
from fallback_plugin.opencode import sync_channel
from fallback_plugin.opencode.bridge_calls import BridgeCalls
from fallback_plugin.opencode.bridge_log import default_file, write_log_to
from fallback_plugin.opencode.bridge_questions import QUESTIONS, questions_for, session_of
from fallback_plugin.opencode.greeting import Greeting
from fallback_plugin.opencode.json_rpc import INVALID_PARAMS, METHOD_NOT_FOUND, Params, Peer, RemoteError
from fallback_plugin.opencode.permission_requests import PermissionRequests
from fallback_plugin.opencode.stdio import FdReceiveStream, FdSendStream, claim_stdout
from fallback_plugin.plugins import PluginHost
from fallback_plugin.settings import (
    LoadedSettings,
    Settings,
    SettingsWatcher,
    candidate_files,
    knows_all,
    load_and_keep,
    load_last_good,
)
from fallback_plugin.settings.environment import blocked_names
from fallback_plugin.wire.event import read_event
from fallback_plugin.wire.fields import integer, optional_object, text
from fallback_plugin.wire.toast import Toast

logger = logging.getLogger(__name__)

LEAVE_WITHIN_S: Final = 5.0
"""How long after the host closed the pipe this process is gone, whatever plugins do."""


def run(greeting: Greeting, already_read: bytes) -> None:
    """Serve a host until it closes stdin.

    Args:
        greeting: its first line.
        already_read: the bytes that came after it.
    """
    # Ctrl-C in the host's terminal reaches us as well; whether to leave is the host's decision.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    send = FdSendStream(claim_stdout())
    anyio.run(_serve, greeting, FdReceiveStream(0, already_read), send, os.environ)


async def _serve(
    greeting: Greeting, receive: FdReceiveStream, send: FdSendStream, environ: Mapping[str, str]
) -> None:
    await Bridge(greeting, environ, partial(Peer, receive, send)).run()


class Bridge:
    """One host's session with us, from the handshake to the end of its pipe.

    ``connect`` makes the peer, given ``on_notification`` and ``on_request``.
    """

    def __init__(self, greeting: Greeting, environ: Mapping[str, str], connect: Callable[..., Peer]) -> None:
        self._greeting = greeting
        self._environ = environ
        self._peer = connect(on_notification=self._on_notification, on_request=self._on_request)
        self._calls = BridgeCalls(self._peer, kind=greeting.kind, directory=greeting.directory)
        self._plugins = PluginHost(self._calls)
        self._permissions = PermissionRequests(self._plugins, self._calls, host_kind=greeting.kind)
        self._host_config: Mapping[str, Any] | None = None
        self._settings = Settings()
        self._started = False
        self._tasks: TaskGroup | None = None
        directory, worktree = Path(greeting.directory), Path(greeting.worktree) if greeting.worktree else None
        load = partial(load_and_keep, directory=directory, worktree=worktree, environ=environ)
        recover = partial(load_last_good, directory=directory, worktree=worktree, environ=environ)
        self._watcher = SettingsWatcher(
            files=candidate_files(directory=directory, worktree=worktree, environ=environ),
            load=lambda: load(host_config=self._host_config),
            apply=self._apply,
            refuse=self._refuse,
            recover=lambda: recover(host_config=self._host_config),
            in_force=self._say_in_force,
        )

    async def run(self) -> None:
        """Start everything, say what to send, and carry events until the host closes the pipe."""
        async with anyio.create_task_group() as tasks:
            self._tasks = tasks
            tasks.start_soon(self._start)
            await self._peer.run()
            _leave_soon()
            await self._plugins.stop()
            tasks.cancel_scope.cancel()

    async def _start(self) -> None:
        await self._watcher.reload()
        self._configure_log()
        greeting = self._greeting
        logger.info(
            "serving %s (%s) in %s, bridge file %s",
            greeting.name,
            greeting.kind,
            greeting.directory,
            greeting.bridge_version,
        )
        chosen = self._settings.plugins
        # The variable is a person's way out when the files are broken: it counts whatever they hold.
        block = {*chosen.block, *blocked_names(self._environ)}
        errors = self._plugins.load(dirs=chosen.dirs, block=block)
        if errors:
            self._toast_error("Plugins not loaded", "\n".join(str(error) for error in errors))
        tasks = self._running
        await tasks.start(self._plugins.run)
        self._started = True
        await self._plugins.settings_changed(self._settings)
        self._subscribe()
        tasks.start_soon(sync_channel.serve, self._peer, self._on_request)
        # What is here by now stays: looking through all of it for garbage would hold answers up by 50 ms.
        gc.freeze()
        gc.enable()
        tasks.start_soon(self._watcher.run)

    def _subscribe(self) -> None:
        wanted = self._plugins.subscriptions
        self._peer.notify(
            "subscribe",
            {
                "events": sorted(wanted.events | self._permissions.events),
                "questions": questions_for(wanted.questions),
                "sampled": dict(wanted.sampled),
                "switching": self._settings.fallback.switching,
            },
        )

    @property
    def _running(self) -> TaskGroup:
        if self._tasks is None:
            raise RuntimeError("the bridge does not run")
        return self._tasks

    def _on_notification(self, method: str, params: Params) -> None:
        match method:
            case "event":
                self._on_event(params)
            case "config":
                self._host_config = params
                self._running.start_soon(self._watcher.reload)
            case "host":
                logger.info("the host's version is %s", text(params, "version"))
            case _:
                logger.debug("ignored the notification %r", method)

    def _on_event(self, params: Params) -> None:
        raw = optional_object(params, "event")
        if raw is None:
            logger.warning("ignored an event that is no object")
            return
        try:
            event = read_event(raw, sequence=integer(params, "sequence"))
        except WireError as error:
            logger.warning("ignored an event of type %r: %s", raw.get("type"), error)
            return
        self._plugins.publish(raw, event)
        self._permissions.take(raw, self._running)

    async def _on_request(self, method: str, params: Params) -> dict[str, Any] | None:
        question = QUESTIONS.get(method.removeprefix("hook/"))
        if question is None or not method.startswith("hook/"):
            raise RemoteError(METHOD_NOT_FOUND, f"unknown method {method!r}")
        try:
            arguments = question.read(params)
        except WireError as error:
            raise RemoteError(INVALID_PARAMS, str(error)) from error
        answer = await self._plugins.ask(question.hook, session_id=session_of(params), **arguments)
        return None if answer is None else question.write(answer)

    async def _say_in_force(self) -> None:
        self._toast(Toast(title="Fallback settings", message="Settings in force.", duration_s=3))

    async def _apply(self, loaded: LoadedSettings) -> None:
        before, self._settings = self._settings, loaded.settings
        for warning in loaded.warnings:
            logger.warning("%s", warning)
        if not self._started:
            return
        if before.plugins != self._settings.plugins:
            logger.warning("[plugins] changed: restart OpenCode to load or block plugins")
        if before.log != self._settings.log:
            self._configure_log()
        if before.fallback.switching != self._settings.fallback.switching:
            self._subscribe()
        logger.info("settings changed")
        await self._plugins.settings_changed(self._settings)

    async def _refuse(self, error: SettingsError) -> None:
        if not self._started:
            self._configure_log()  # what is said before is lost
        logger.error("settings are not taken: %s", error)
        kept = "the last good settings stay" if self._is_known(error) else "defaults are used"
        self._toast_error("Fallback settings are wrong", f"{error}\nUntil that is mended, {kept}.")

    def _is_known(self, error: SettingsError) -> bool:
        """Tell whether settings are in force that every file which is wrong held before."""
        current = self._watcher.current
        return current is not None and (self._started or knows_all(current, error))

    def _configure_log(self) -> None:
        log = self._settings.log
        write_log_to(log.file or default_file(self._environ), level=log.level)

    def _toast_error(self, title: str, message: str) -> None:
        self._toast(Toast(title=title, message=message, variant="error", duration_s=10))

    def _toast(self, toast: Toast) -> None:
        self._running.start_soon(self._show, toast)

    async def _show(self, toast: Toast) -> None:
        try:
            await self._calls.toast(toast)
        except HostCallError as error:
            logger.warning("a toast was not shown: %s", error)


def _leave_soon() -> None:
    """Make sure this process ends, even if a plugin's thread does not."""
    timer = threading.Timer(LEAVE_WITHIN_S, os._exit, args=(0,))
    timer.daemon = True
    timer.start()
