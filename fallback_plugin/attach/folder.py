"""One project folder of one server: its plugins, their settings, and what its sessions do."""

import logging
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

import anyio
from anyio.abc import TaskGroup

from fallback_plugin.attach.counted_calls import CountedCalls
from fallback_plugin.attach.metrics import ServerCounts
from fallback_plugin.attach.running import RunningSessions, end_events, status_event, turn_events
from fallback_plugin.errors import HostCallError, SettingsError, WireError
from fallback_plugin.events import SessionStatus
from fallback_plugin.fallback.effects import Record
from fallback_plugin.fallback.plugin import FallbackPlugin
from fallback_plugin.opencode.http_client import OpenCodeHttpClient
from fallback_plugin.opencode.permission_requests import PermissionRequests
from fallback_plugin.plugins import PluginHost
from fallback_plugin.plugins.subscriptions import EVERY_TYPE
from fallback_plugin.service_log import set_log_level
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
from fallback_plugin.wire.fields import Json
from fallback_plugin.wire.toast import Toast

logger = logging.getLogger(__name__)

EARLY_EVENTS: Final = 10_000
"""How many events may wait for a folder's plugins to be loaded; the oldest go first."""


@dataclass(frozen=True, slots=True)
class SettingsPlace:
    """Where settings come from: one ``file``, or else the user's and that of the project in ``directory``."""

    environ: Mapping[str, str]
    directory: Path
    file: Path | None = None

    def watcher(self, folder: "AttachedFolder") -> SettingsWatcher:
        """Return what keeps a folder's settings up to date."""
        files = candidate_files(directory=self.directory, worktree=None, environ=self.environ)
        load = partial(load_and_keep, directory=self.directory, environ=self.environ, file=self.file)
        recover = partial(load_last_good, directory=self.directory, environ=self.environ, file=self.file)
        return SettingsWatcher(
            files=(self.file,) if self.file else files,
            load=lambda: load(host_config=folder.host_config),
            apply=folder.apply,
            refuse=folder.refuse,
            recover=lambda: recover(host_config=folder.host_config),
            in_force=folder.say_in_force,
        )


class AttachedFolder:
    """Brings a folder's events to a plugin host, which outlives the connections."""

    def __init__(
        self, client: OpenCodeHttpClient, *, name: str, settings: SettingsPlace, counts: ServerCounts
    ) -> None:
        self._client = client
        self._name = name
        self._environ = settings.environ
        self._counts = counts
        self._calls = CountedCalls(client, counts)
        self._plugins = PluginHost(self._calls)
        self._permissions = PermissionRequests(self._plugins, client, host_kind=client.kind)
        self._settings = Settings()
        self._watcher = settings.watcher(self)
        self._wanted: frozenset[str] = frozenset()
        self._starting = anyio.Lock()
        self._early: deque[Json] | None = deque(maxlen=EARLY_EVENTS)
        self._fallback = FallbackPlugin(on_decision=self._count_decision, settings_file=settings.file)
        self._tasks: TaskGroup | None = None
        self._watching = anyio.CancelScope()
        self.heard_at = 0.0
        self.running = RunningSessions()
        self.host_config: Mapping[str, Any] | None = None

    @property
    def client(self) -> OpenCodeHttpClient:
        """The server, seen from this folder."""
        return self._client

    async def start(self, tasks: TaskGroup) -> None:
        """Read the host's config, and the first time load the plugins and keep them running in ``tasks``."""
        async with self._starting:
            await self._read_host_config()
            await self._watcher.reload()
            if self._tasks is not None:
                return
            # A plugin host starts only once, so it may not be half started when the connection is lost.
            with anyio.CancelScope(shield=True):
                await self._start_plugins(tasks)

    async def stop(self) -> None:
        """Let plugins say good-bye; the folder is of no use afterwards."""
        self._watching.cancel()
        await self._plugins.stop()

    def is_quiet_since(self, moment: float) -> bool:
        """Tell whether nothing runs, and nothing was heard at ``moment`` or later."""
        return self._tasks is not None and not self.running and self.heard_at < moment

    def take(self, raw: Json, now: float) -> None:
        """Hand an event of the host on; never blocks."""
        self._counts.events += 1
        self.heard_at = now
        self.running.see(raw)
        if self._early is not None:
            self._early.append(raw)
        else:
            self._publish(raw)

    async def catch_up(self, *, go_on: bool = False) -> None:
        """Tell plugins what went on while nobody listened. The events have to be read meanwhile.

        A run that goes on is told with the turn it works on, which may have begun unheard; one that ended is
        told as ended, however it did.

        Args:
            go_on: follow what is heard from now on even if the server does not answer.

        Raises:
            HostCallError: if the server does not answer.
        """
        try:
            running = await self._client.status()
            turns = await self._turns_under_way(self.running.went_on(running))
            # Asked once more: what was heard of since then is newer.
            for session_id in self.running.ended(running):
                self._tell(*end_events(session_id))
            for status in self.running.went_on(running):
                if (turn := turns.get(status.session_id)) is not None:
                    self._tell(*turn, status_event(status))
            self._fallback.host_heard_again()
        except HostCallError:
            if go_on:
                # The turns of other sessions may have ended unheard.
                self._fallback.host_heard_again(self.running.heard_of)
            raise
        finally:
            self.running.caught_up()

    def lost(self) -> None:
        """Note that nothing is heard of the folder until `catch_up`: a silence says nothing of its models."""
        self._fallback.host_lost()

    def put_away(self) -> None:
        """Note that the server has disposed of the folder: whatever ran in it has ended."""
        for session_id in self.running:
            self._tell(*end_events(session_id))

    async def apply(self, loaded: LoadedSettings) -> None:
        """Take settings that changed."""
        before, self._settings = self._settings, loaded.settings
        for warning in loaded.warnings:
            logger.warning("%s: %s", self._name, warning)
        if self._tasks is None:
            return
        if before.plugins != self._settings.plugins:
            logger.warning("%s: [plugins] changed: attach anew to load or block plugins", self._name)
        if before.log.level != self._settings.log.level:
            set_log_level(self._settings.log.level)
        logger.info("%s: settings changed", self._name)
        await self._plugins.settings_changed(self._settings)

    async def refuse(self, error: SettingsError) -> None:
        """Say that settings are wrong, here and to the person at the host."""
        logger.error("%s: settings are not taken: %s", self._name, error)
        current = self._watcher.current
        is_known = current is not None and (self._tasks is not None or knows_all(current, error))
        kept = "the last good settings stay" if is_known else "defaults are used"
        await self._show_error("Fallback settings are wrong", f"{error}\nUntil that is mended, {kept}.")

    async def say_in_force(self) -> None:
        """Say that a changed file was taken."""
        await self._show(Toast(title="Fallback settings", message="Settings in force.", duration_s=3))

    async def _start_plugins(self, tasks: TaskGroup) -> None:
        self._load_plugins()
        await tasks.start(self._plugins.run)
        self._tasks = tasks
        await self._plugins.settings_changed(self._settings)
        tasks.start_soon(self._watch_settings)
        early, self._early = self._early or (), None
        for raw in early:
            self._publish(raw)

    async def _watch_settings(self) -> None:
        with self._watching:
            await self._watcher.run()

    async def _read_host_config(self) -> None:
        try:
            self.host_config = await self._client.config()
        except HostCallError as error:
            logger.warning("%s: its own config was not read: %s", self._name, error)

    async def _turns_under_way(self, running: list[SessionStatus]) -> dict[str, list[dict[str, Any]]]:
        """Return the events of each session's turn; without those whose history cannot be read."""
        turns: dict[str, list[dict[str, Any]]] = {}
        for session_id in (status.session_id for status in running):
            try:
                history = await self._client.stored_messages(session_id)
            except HostCallError as error:
                logger.warning("%s: what session %s does is not known: %s", self._name, session_id, error)
            else:
                turns[session_id] = turn_events(session_id, history)
        return turns

    def _load_plugins(self) -> None:
        chosen = self._settings.plugins
        # The variable is a person's way out when the files are broken: it counts whatever they hold.
        block = {*chosen.block, *blocked_names(self._environ)}
        # By hand and first, as built-in plugins are, to hear of its decisions.
        self._plugins.load(
            builtins=False, entry_points=False, explicit={"fallback": self._fallback}, block=block
        )
        self._plugins.load(builtins=False, dirs=chosen.dirs, block=block)
        wanted = self._plugins.subscriptions
        self._wanted = wanted.events | wanted.sampled.keys() | self._permissions.events

    def _count_decision(self, record: Record) -> None:
        self._counts.decided(record.decision)

    def _tell(self, *events: Json) -> None:
        for raw in events:
            self.running.see(raw)
            self._publish(raw)

    def _publish(self, raw: Json) -> None:
        if raw.get("type") not in self._wanted and EVERY_TYPE not in self._wanted:
            return
        try:
            event = read_event(raw)
        except WireError as error:
            logger.warning("%s: ignored an event of type %r: %s", self._name, raw.get("type"), error)
            return
        self._plugins.publish(raw, event)
        if self._tasks is not None:
            self._permissions.take(raw, self._tasks)

    async def _show_error(self, title: str, message: str) -> None:
        await self._show(Toast(title=title, message=message, variant="error", duration_s=10))

    async def _show(self, toast: Toast) -> None:
        try:
            await self._calls.toast(toast)
        except HostCallError as error:
            logger.warning("%s: a toast was not shown: %s", self._name, error)
