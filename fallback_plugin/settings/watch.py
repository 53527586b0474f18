"""Hot reload: look at the files now and then, and hand settings on when they changed."""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias

import anyio

from fallback_plugin.errors import SettingsError
from fallback_plugin.settings.load import LoadedSettings

INTERVAL_S: Final = 0.5
"""Between two looks at the files. A change is taken at the second look that sees it: within a second."""


class Fingerprint(NamedTuple):
    """What tells one version of a file from another without reading it."""

    modified_ns: int
    size: int
    inode: int


Snapshot: TypeAlias = Mapping[Path, Fingerprint | None]
"""The fingerprint of each file; None for one that is not there."""


def snapshot(files: Iterable[Path]) -> Snapshot:
    """Return the fingerprints of files; one that cannot be looked at counts as absent."""
    return {file: _fingerprint(file) for file in files}


def changed(before: Snapshot, after: Snapshot) -> frozenset[Path]:
    """Return the files that appeared, vanished, were written to or were replaced."""
    return frozenset(file for file in before.keys() | after.keys() if before.get(file) != after.get(file))


def _fingerprint(file: Path) -> Fingerprint | None:
    try:
        status = file.stat()
    except (OSError, ValueError):
        return None
    return Fingerprint(status.st_mtime_ns, status.st_size, status.st_ino)


class SettingsWatcher:
    """Loads settings when asked and whenever a file changes; the last good ones stay in force.

    ``files`` are those of `candidate_files`. ``load`` reads the settings (`load_settings` with its arguments
    bound), ``current`` are settings in force already, ``apply`` takes settings that differ from the last,
    ``refuse`` is told once of each error. If the first load fails, ``recover`` returns the last good settings
    of an earlier process. ``in_force`` is told when a changed file was taken. What ``apply``, ``refuse`` or
    ``in_force`` raises ends the watch.
    """

    def __init__(
        self,
        *,
        files: Iterable[Path],
        load: Callable[[], LoadedSettings],
        apply: Callable[[LoadedSettings], Awaitable[None]],
        refuse: Callable[[SettingsError], Awaitable[None]],
        current: LoadedSettings | None = None,
        recover: Callable[[], LoadedSettings] | None = None,
        in_force: Callable[[], Awaitable[None]] | None = None,
        interval_s: float = INTERVAL_S,
        sleep: Callable[[float], Awaitable[None]] = anyio.sleep,
    ) -> None:
        self._files = tuple(files)
        self._load = load
        self._apply = apply
        self._refuse = refuse
        self._recover = recover
        self._in_force = in_force
        self._interval_s = interval_s
        self._sleep = sleep
        self._seen: Snapshot | None = None
        self._refused: str | None = None
        self._recovered = False
        self._lock = anyio.Lock()
        self.current = current
        """The last good settings; None until the first load succeeds."""

    async def reload(self) -> None:
        """Load now; ``apply`` what is new or ``refuse`` what is wrong.

        Call it for the first load, and when something other than a file changed (the host's config).
        """
        async with self._lock:
            # Looked at before reading: a write in between shows as a change at the next look.
            self._seen = snapshot(self._files)
            try:
                loaded = self._load()
            except SettingsError as error:
                await self._take_recovered()
                if str(error) != self._refused:
                    self._refused = str(error)
                    await self._refuse(error)
                return
            self._refused, self._recovered = None, False
            before, self.current = self.current, loaded
            if before is None or before.settings != loaded.settings:
                await self._apply(loaded)

    async def _take_recovered(self) -> None:
        """Take what an earlier process knew, for as long as this one has loaded nothing itself."""
        if self._recover is None or (self.current is not None and not self._recovered):
            return
        try:
            loaded = self._recover()
        except SettingsError:
            return  # wrong in the environment or on the command line
        self._recovered = True
        before, self.current = self.current, loaded
        if before is None or before.settings != loaded.settings:
            await self._apply(loaded)

    async def run(self) -> None:
        """Reload at each change of a file, for ever. Loads first if nothing was loaded yet.

        A change is taken when two looks in a row agree, so that a half-written file is not reported.
        """
        if self._seen is None:
            await self.reload()
        last = self._seen or {}
        while True:
            await self._sleep(self._interval_s)
            now = snapshot(self._files)
            if self._seen is not None and changed(self._seen, now) and not changed(last, now):
                before, was_refused = self.current, self._refused is not None
                await self.reload()
                mended = was_refused and self._refused is None
                if self._in_force and (mended or _differs(before, self.current)):
                    await self._in_force()
            last = now


def _differs(before: LoadedSettings | None, after: LoadedSettings | None) -> bool:
    return after is not None and (before is None or before.settings != after.settings)
