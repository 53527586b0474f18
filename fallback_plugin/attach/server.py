"""One server: a connection that is made anew whenever it is lost, for as long as this process runs."""

import logging
import random
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

import anyio
from anyio.abc import TaskGroup

from fallback_plugin.attach.all_folders import DISPOSED, of_folder
from fallback_plugin.attach.backoff import SLOWEST, delay_s, tries_after
from fallback_plugin.attach.folder import AttachedFolder, SettingsPlace
from fallback_plugin.attach.metrics import ServerCounts
from fallback_plugin.attach.target import Target
from fallback_plugin.errors import HostCallError
from fallback_plugin.opencode.host_version import SUPPORTED, is_supported
from fallback_plugin.opencode.http_client import OpenCodeHttpClient, connect

logger = logging.getLogger(__name__)

QUIET_S: Final = 3600.0
"""Of all folders, one quiet for so long is let go of when another is taken up, and at a new connection."""

REFUSED: Final = frozenset({401, 403})
"""What a server answers to a wrong password, and a proxy in front of it."""

NOT_FOUND: Final = 404
"""What another kind of server answers to the first call."""

REFUSES: Final = "it refuses the user name or the password"
ASKS: Final = "it asks for a password: name the variable that holds it with --password-env"


@dataclass(frozen=True, slots=True)
class Folders:
    """Which folders of a server count: those named, all, or else the server's own."""

    directories: Sequence[str] = ()
    everywhere: bool = False


class AttachedServer:
    """Keeps plugins attached to one server.

    ``draw`` gives numbers between 0 and 1 at random; ``clock`` seconds of a clock that never goes back.
    """

    def __init__(
        self,
        target: Target,
        folders: Folders,
        settings: SettingsPlace,
        *,
        draw: Callable[[], float] = random.random,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = anyio.sleep,
    ) -> None:
        self._target = target
        self._wanted = folders
        self._place = settings
        self._draw = draw
        self._clock = clock
        self._sleep = sleep
        self._folders: dict[str, AttachedFolder] = {}
        self._listening = anyio.CancelScope()
        self._attached_at: float | None = None
        self._attached_before = False
        self._said_away = False
        self.counts = ServerCounts(target.url)
        self.gave_up = False

    async def run(self) -> None:
        """Stay attached until `stop`, or until the server refuses the password; then stop the plugins."""
        target = self._target
        async with (
            connect(target.url, user=target.user, password=target.password) as client,
            anyio.create_task_group() as tasks,
        ):
            with self._listening:
                await self._stay_attached(client, tasks)
            self.counts.attached = False
            async with anyio.create_task_group() as stopping:
                for folder in self._folders.values():
                    stopping.start_soon(folder.stop)
            tasks.cancel_scope.cancel()

    def stop(self) -> None:
        """Let `run` end in good order."""
        self._listening.cancel()

    async def _stay_attached(self, client: OpenCodeHttpClient, tasks: TaskGroup) -> None:
        tries = 0
        while not self.gave_up:
            error = await self._connection(client, tasks)
            self.counts.attached = False
            tries = tries_after(tries, self._connected_s())
            if error.status in REFUSED:
                tries = SLOWEST
                # One that let us in before may do so again.
                self.gave_up = not self._attached_before
            self._say_away(error)
            if not self.gave_up:
                await self._sleep(delay_s(tries, self._draw()))
                tries += 1

    async def _connection(self, client: OpenCodeHttpClient, tasks: TaskGroup) -> HostCallError:
        """Connect and carry events until the connection is lost; return why it was."""
        self._attached_at = None
        async with anyio.create_task_group() as streams:
            connection = _Connection(streams)
            connection.start(partial(self._listen, client, tasks, connection))
        for folder in self._folders.values():
            folder.lost()
        return connection.error or HostCallError("the connection is over")

    async def _listen(self, client: OpenCodeHttpClient, tasks: TaskGroup, connection: "_Connection") -> None:
        version = (await client.health()).version
        if not is_supported(version):
            raise HostCallError(f"this is OpenCode {version}, and attach speaks to {SUPPORTED} only")
        if self._wanted.everywhere:
            await self._listen_everywhere(client, tasks, connection, version)
            return
        # The server's own spelling of a path, so that no folder is taken twice.
        asked = [client.at(directory) for directory in self._wanted.directories] or [client]
        names = list(dict.fromkeys([await folder.own_directory() for folder in asked]))
        waiting = set(names)

        def caught_up(name: str) -> None:
            waiting.discard(name)
            if not waiting:
                self._attached(version)

        for name in names:
            folder = self._folder(name, client)
            connection.start(
                partial(self._listen_to_folder, folder, tasks, connection, partial(caught_up, name))
            )

    async def _listen_to_folder(
        self,
        folder: AttachedFolder,
        tasks: TaskGroup,
        connection: "_Connection",
        caught_up: Callable[[], None],
    ) -> None:
        async def catch_up() -> None:
            await folder.catch_up()
            caught_up()

        async with folder.client.events() as events:
            folder.running.listen_anew()
            await folder.start(tasks)
            connection.start(catch_up)
            async for raw in events:
                folder.take(raw, self._clock())

    async def _listen_everywhere(
        self, client: OpenCodeHttpClient, tasks: TaskGroup, connection: "_Connection", version: str
    ) -> None:
        async def introduce(folder: AttachedFolder) -> None:
            await folder.start(tasks)
            try:
                await folder.catch_up(go_on=True)
            except HostCallError as error:  # trouble with one folder is no reason to leave the others
                logger.warning("%s: %s", self._target.url, error)

        async with client.all_events() as events:
            self._let_go_of_quiet_folders(tasks)
            for folder in self._folders.values():
                folder.running.listen_anew()
                connection.start(partial(introduce, folder))
            self._attached(version)
            async for raw in events:
                found = of_folder(raw)
                if found is None:
                    continue
                folder_is_new = found.directory not in self._folders
                folder = self._folder(found.directory, client)
                if folder_is_new:
                    self._let_go_of_quiet_folders(tasks)
                    folder.running.listen_anew()
                    connection.start(partial(introduce, folder))
                if found.raw.get("type") == DISPOSED:
                    folder.put_away()
                folder.take(found.raw, self._clock())

    def _connected_s(self) -> float | None:
        return None if self._attached_at is None else self._clock() - self._attached_at

    def _let_go_of_quiet_folders(self, tasks: TaskGroup) -> None:
        long_ago = self._clock() - QUIET_S
        for directory, folder in list(self._folders.items()):
            if folder.is_quiet_since(long_ago):
                del self._folders[directory]
                tasks.start_soon(folder.stop)

    def _folder(self, directory: str, client: OpenCodeHttpClient) -> AttachedFolder:
        folder = self._folders.get(directory)
        if folder is None:
            place = self._place
            if self._target.is_this_machine:
                place = SettingsPlace(place.environ, Path(directory), place.file)
            name = f"{self._target.url} {directory}"
            folder = AttachedFolder(client.at(directory), name=name, settings=place, counts=self.counts)
            self._folders[directory] = folder
        return folder

    def _attached(self, version: str) -> None:
        self._attached_at = self._clock()
        self.counts.attached = True
        self.counts.reconnects += self._attached_before
        again = "attached again" if self._attached_before else "attached"
        where = ", ".join(self._folders) if not self._wanted.everywhere else "all folders"
        logger.info("%s: %s (OpenCode %s), %s", self._target.url, again, version, where)
        self._attached_before, self._said_away = True, False

    def _say_away(self, error: HostCallError) -> None:
        url = self._target.url
        if error.status in REFUSED:
            reason = REFUSES if self._has_password else ASKS
            if self.gave_up:
                logger.error("%s: given up: %s (HTTP %s)", url, reason, error.status)
                return
        elif error.status == NOT_FOUND and not self._attached_before:
            reason = f"this does not look like an OpenCode server: {error}"
        else:
            reason = str(error)
        if not self._said_away:
            self._said_away = True
            lost = "lost" if self._attached_before else "not there"
            logger.warning("%s: %s: %s; trying again until it is back", url, lost, reason)

    @property
    def _has_password(self) -> bool:
        return bool(self._target.password)


class _Connection:
    """Work that belongs to one connection; where some of it fails, all of it ends."""

    def __init__(self, tasks: TaskGroup) -> None:
        self._tasks = tasks
        self.error: HostCallError | None = None

    def start(self, work: Callable[[], Awaitable[None]]) -> None:
        self._tasks.start_soon(self._until_lost, work)

    async def _until_lost(self, work: Callable[[], Awaitable[None]]) -> None:
        try:
            await work()
        except HostCallError as error:
            self._lost(error)
        except Exception as error:  # a mistake of ours with one server may not end the others
            logger.exception("the connection failed")
            self._lost(HostCallError(f"{type(error).__name__}: {error}"))

    def _lost(self, error: HostCallError) -> None:
        self.error = self.error or error
        self._tasks.cancel_scope.cancel()
