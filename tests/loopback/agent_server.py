"""Our own host as a process, in a home that shares nothing with a person's own."""

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from tests.loopback.host_server import HostServer
from tests.loopback.provider import ScriptedProvider

KEPT: Final = ("PATH", "LANG", "LC_ALL", "TMPDIR", "PYTHONPATH", "PYTHONDONTWRITEBYTECODE")
COMMAND: Final = (sys.executable, "-m", "fallback_plugin", "serve")


class AgentHome:
    """A project, settings and data under ``root``, with ``models`` of providers that are the scripted one."""

    def __init__(
        self,
        root: Path,
        provider: ScriptedProvider,
        models: Mapping[str, Sequence[str]],
        settings: str = "",
    ) -> None:
        self.directory: Final = root / "project"
        self.data: Final = root / "sessions"
        self.output_file: Final = root / "output.log"
        self.settings_file: Final = root / "config" / "fallback-plugin" / "fallback.toml"
        self.environment: Final[dict[str, str]] = {
            **{name: os.environ[name] for name in KEPT if name in os.environ},
            "HOME": str(root),
            **{f"XDG_{name.upper()}_HOME": str(root / name) for name in ("config", "data", "state", "cache")},
        }
        self.directory.mkdir(parents=True)
        self.settings_file.parent.mkdir(parents=True)
        tables = [
            f'[providers.{name}]\nbase_url = "{provider.url}"\nmodels = {list(its_models)!r}\n'
            for name, its_models in models.items()
        ]
        self.settings_file.write_text("\n".join([settings, *tables]))

    def logs(self) -> str:
        """Return the end of what the host wrote."""
        return self.output_file.read_text()[-6000:]


class AgentServer(HostServer[AgentHome]):
    """Run ``fallback-plugin serve``; a second one in the same home takes its sessions over."""

    def __init__(self, home: AgentHome, *, password: str | None = None, port: int = 0) -> None:
        command = (*COMMAND, "--port", str(port), "--data-dir", home.data)
        super().__init__(command, home, password=password)
