"""A machine of its own for each test: a home folder, a project with a repository, an environment."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from fallback_plugin.errors import SettingsError
from fallback_plugin.settings import LoadedSettings, load_settings


@dataclass
class Machine:
    home: Path
    project: Path
    environ: dict[str, str] = field(default_factory=dict)

    @property
    def user_file(self) -> Path:
        return self.home / ".config" / "fallback-plugin" / "fallback.toml"

    @property
    def project_file(self) -> Path:
        return self.project / "fallback.toml"

    def write_user(self, text: str) -> None:
        self.user_file.parent.mkdir(parents=True, exist_ok=True)
        self.user_file.write_text(text)

    def write_project(self, text: str) -> None:
        self.project_file.write_text(text)

    def load(
        self,
        *,
        directory: Path | None = None,
        host_config: Mapping[str, Any] | None = None,
        overrides: Mapping[str, Any] | None = None,
    ) -> LoadedSettings:
        return load_settings(
            directory=directory or self.project,
            environ={"HOME": str(self.home), **self.environ},
            host_config=host_config,
            overrides=overrides,
        )

    def complaints(self, *, overrides: Mapping[str, Any] | None = None) -> list[str]:
        """Return the lines of the error that loading raises, with the folders taken out."""
        with pytest.raises(SettingsError) as caught:
            self.load(overrides=overrides)
        text = str(caught.value).replace(f"{self.project}/", "").replace(f"{self.user_file.parent}/", "user/")
        return text.splitlines()


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    home, project = tmp_path / "home", tmp_path / "project"
    home.mkdir()
    (project / ".git").mkdir(parents=True)
    return Machine(home, project)
