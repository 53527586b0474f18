"""Folders, configuration and environment of an OpenCode that shares nothing with a person's own."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from tests.loopback.provider import SMALL_MODEL, ScriptedProvider

_QUIET: Final = {
    # With a plugin each start waits for a package install, a minute and more if there is no network.
    "npm_config_fetch_retries": "0",
    "npm_config_offline": "true",
    "OPENCODE_DISABLE_AUTOUPDATE": "1",
    "OPENCODE_DISABLE_LSP_DOWNLOAD": "1",
    "OPENCODE_DISABLE_MODELS_FETCH": "1",
    "OPENCODE_DISABLE_SHARE": "1",
}
CATALOG: Final = "OPENCODE_MODELS_PATH"
"""Names a file with the models of the world: reading OpenCode's own list of them is a third of its start."""

_KEPT: Final = ("PATH", "LANG", "LC_ALL", "TERM", "TMPDIR")
_COMMAND: Final = Path(sys.executable).with_name("fallback-plugin")


def ref(model: str) -> str:
    """Name a model of `provider_each` as hosts and settings do."""
    return f"of-{model}/{model}"


def provider_each(models: Iterable[str]) -> dict[str, list[str]]:
    """Give each model a provider of its own, so that what is wrong with one says nothing about another."""
    return {f"of-{model}": [model] for model in models}


class OpenCodeHome:
    """One isolated OpenCode under ``root``, whose providers all lead to the scripted one.

    ``models`` maps a provider's id to its models, ``npm`` to its SDK if that is not the OpenAI-compatible
    one; ``config`` is added to ``opencode.json``. OpenCode knows no other models, unless `CATALOG` is taken
    out of the environment.
    """

    def __init__(
        self,
        root: Path,
        provider: ScriptedProvider,
        models: Mapping[str, Sequence[str]],
        config: Mapping[str, Any] | None = None,
        *,
        npm: Mapping[str, str] | None = None,
    ) -> None:
        self.directory: Final = root / "project"
        self.settings_file: Final = root / "config" / "fallback-plugin" / "fallback.toml"
        self.plugin_file: Final = root / "config" / "opencode" / "plugin" / "fallback-plugin.js"
        self.log_file: Final = root / "data" / "opencode" / "log" / "opencode.log"
        self.plugin_log_file: Final = root / "state" / "fallback-plugin" / "fallback-plugin.log"
        self.output_file: Final = root / "output.log"
        self.environment: Final[dict[str, str]] = {
            **{name: os.environ[name] for name in _KEPT if name in os.environ},
            **_QUIET,
            "HOME": str(root),
            CATALOG: str(root / "catalog.json"),
            **{f"XDG_{name.upper()}_HOME": str(root / name) for name in ("config", "data", "state", "cache")},
        }
        self.directory.mkdir(parents=True)
        Path(self.environment[CATALOG]).write_text("{}")
        opencode_json = root / "config" / "opencode" / "opencode.json"
        opencode_json.parent.mkdir(parents=True)
        opencode_json.write_text(json.dumps({**_config(provider.url, models, npm or {}), **(config or {})}))

    def install_plugin(self, settings: str, *, scope: str = "user") -> str:
        """Install the plugin as a person does, and return what was printed.

        ``settings`` are written to the user's file; ``scope`` is ``user`` or ``project``.
        """
        said = self.command("install", "opencode", f"--{scope}")
        self.write_settings(settings)
        return said

    def command(self, *arguments: str) -> str:
        """Run a command of ours in this home, and return what it printed."""
        done = subprocess.run(
            [_COMMAND, *arguments],
            env=self.environment,
            cwd=self.directory,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            raise AssertionError(f"{arguments[0]} failed with {done.returncode}:\n{done.stdout}{done.stderr}")
        return done.stdout

    def write_settings(self, text: str) -> None:
        """Replace the user's settings in one step, as editors do."""
        self.settings_file.parent.mkdir(parents=True, exist_ok=True)
        draft = self.settings_file.with_suffix(".draft")
        draft.write_text(text)
        draft.replace(self.settings_file)

    def use_interpreter(self, program: Path) -> None:
        """Make the installed bridge start another program than the interpreter that installed it."""
        text, count = re.subn(
            r"^const INTERPRETER = .*$",
            f"const INTERPRETER = {json.dumps(str(program))};",
            self.plugin_file.read_text(),
            flags=re.MULTILINE,
        )
        if count != 1:
            raise AssertionError(f"{self.plugin_file} names its interpreter {count} times")
        self.plugin_file.write_text(text)

    def logs(self) -> str:
        """Return the ends of all logs, for the report of a failed test."""
        files = (self.output_file, self.log_file, self.plugin_log_file)
        return "\n".join(f"--- {file.name}\n{file.read_text()[-6000:]}" for file in files if file.exists())


def _config(url: str, models: Mapping[str, Sequence[str]], npm: Mapping[str, str]) -> dict[str, Any]:
    first = next(iter(models))
    all_models = {**models, first: [*models[first], SMALL_MODEL]}
    return {
        "model": f"{first}/{models[first][0]}",
        "small_model": f"{first}/{SMALL_MODEL}",
        "enabled_providers": list(models),
        "provider": {
            name: {
                "npm": npm.get(name, "@ai-sdk/openai-compatible"),
                "name": name,
                "options": {"baseURL": url, "apiKey": f"key-of-{name}"},
                "models": {
                    model: {"name": model, "tool_call": True, "limit": {"context": 128_000, "output": 4096}}
                    for model in its_models
                },
            }
            for name, its_models in all_models.items()
        },
        "autoupdate": False,
        "share": "disabled",
        "lsp": False,
        "formatter": False,
    }
