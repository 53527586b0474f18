"""Copies of settings files as they were when they last made sense, for a process that finds one broken.

A copy belongs to a file's path and is read in its place, as what that file is: a project's copy has no more
power than the project's file. Copies are the user's own (mode 0600), since a file may name a password.
"""

import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Any, Final, NotRequired, TypedDict, Unpack

from fallback_plugin.errors import SettingsError
from fallback_plugin.settings.discovery import home
from fallback_plugin.settings.load import LoadedSettings, load_settings

MAX_COPIES: Final = 100
"""The copies of files that were read longest ago are removed beyond this."""

MAX_BYTES: Final = 256 * 1024
"""A larger file is not kept."""


class LastGoodFiles:
    """Keeps one copy of each file below ``folder``. A copy that cannot be written or read is none."""

    def __init__(self, folder: Path) -> None:
        self.folder: Final = folder

    @classmethod
    def below_state(cls, environ: Mapping[str, str]) -> "LastGoodFiles":
        """Keep copies below ``$XDG_STATE_HOME``, beside the health file."""
        base = Path(environ.get("XDG_STATE_HOME", ""))
        state = base if base.is_absolute() else home(environ) / ".local" / "state"
        return cls(state / "fallback-plugin" / "last-good")

    def keep(self, files: Iterable[Path]) -> None:
        """Copy files that have just been read and found good."""
        for file in files:
            with suppress(OSError):
                self._keep(file)

    def text(self, file: Path) -> str | None:
        """Return what a file held when it last made sense, None if that is not known."""
        try:
            return self._copy(file).read_bytes().decode("utf-8-sig")
        except (OSError, UnicodeDecodeError):
            return None

    def _keep(self, file: Path) -> None:
        copy, content = self._copy(file), file.read_bytes()
        if len(content) > MAX_BYTES:
            copy.unlink(missing_ok=True)
            return
        with suppress(FileNotFoundError):
            if copy.read_bytes() == content:
                return
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        draft = copy.with_suffix(f".{os.getpid()}")
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        try:
            with os.fdopen(descriptor, "wb") as opened:
                opened.write(content)
            draft.replace(copy)
        except OSError:
            draft.unlink(missing_ok=True)
            raise
        self._make_room()

    def _make_room(self) -> None:
        copies = sorted(self.folder.iterdir(), key=lambda copy: copy.stat().st_mtime_ns, reverse=True)
        for copy in copies[MAX_COPIES:]:
            copy.unlink(missing_ok=True)

    def _copy(self, file: Path) -> Path:
        name = sha256(os.fsencode(file.absolute())).hexdigest()
        return self.folder / f"{name}.toml"


class Sources(TypedDict):
    """Where settings come from: arguments of `load_settings`."""

    directory: Path
    environ: Mapping[str, str]
    worktree: NotRequired[Path | None]
    host_config: NotRequired[Mapping[str, Any] | None]
    file: NotRequired[Path | None]


def load_and_keep(**sources: Unpack[Sources]) -> LoadedSettings:
    """Read settings as `load_settings` does, and keep a copy of each file for a process that finds it broken.

    Raises:
        SettingsError: as `load_settings` does; no copy is kept then.
    """
    loaded = load_settings(**sources)
    LastGoodFiles.below_state(sources["environ"]).keep(loaded.files)
    return loaded


def load_last_good(**sources: Unpack[Sources]) -> LoadedSettings:
    """Read settings, each broken file as it was when it last made sense, or left out if that is not known.

    Raises:
        SettingsError: for what is wrong elsewhere, as in the environment.
    """
    return load_settings(**sources, last_good=LastGoodFiles.below_state(sources["environ"]).text)


def knows_all(loaded: LoadedSettings, error: SettingsError) -> bool:
    """Tell whether settings read by `load_last_good` hold a copy of every file that an error names."""
    wrong = {file for file in loaded.watched if f"{file}:" in str(error)}
    return bool(wrong) and wrong <= set(loaded.files)


def load_or_last_good(**sources: Unpack[Sources]) -> tuple[LoadedSettings, SettingsError | None]:
    """Read settings and keep them; with a broken file the last good ones, and what is wrong.

    Raises:
        SettingsError: if nothing is known of what a broken file held before.
    """
    try:
        return load_and_keep(**sources), None
    except SettingsError as error:
        try:
            loaded = load_last_good(**sources)
        except SettingsError:
            raise error from None
        if not knows_all(loaded, error):
            raise
        return loaded, error
