"""Settings of places and of the environment in the real OpenCode: logs, health, a server, plugins blocked."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from tests.health.redis_server import RedisServer
from tests.loopback.opencode_home import OpenCodeHome, provider_each, ref
from tests.loopback.opencode_server import OpenCodeServer
from tests.loopback.provider import ScriptedProvider
from tests.loopback.reply import status, stream
from tests.opencode.real.conftest import BeginTurn, StartServer

pytestmark = [pytest.mark.real_host, pytest.mark.timeout(120)]

COMMAND: Final = Path(sys.executable).with_name("fallback-plugin")
ADDRESS: Final = "WHERE_HEALTH_IS"
PLUGIN: Final = """
from pathlib import Path

from fallback_plugin import Toast, hookimpl

Path(__file__).with_suffix(".imported").touch()


@hookimpl
async def session_created(host):
    await host.toast(Toast(title="A plugin", message=Path(__file__).stem))
"""
PLUGINS: Final = ("blocked_by_a_file", "blocked_by_a_variable", "loaded")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("places")


@pytest.fixture(scope="module")
def redis(redis_binary: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    server = RedisServer(redis_binary, tmp_path_factory.mktemp("redis"), password="a-password-of-redis")
    server.start()
    yield server
    server.kill()


def settings(folder: Path, level: str) -> str:
    return f"""
[fallback]
fallback_models = ["{ref("of-the-file")}"]

[log]
level = "{level}"
file = "{folder / "logs" / "own.log"}"

[health]
file = "{folder / "health.sqlite3"}"
url_env = "{ADDRESS}"

[plugins]
dirs = ["{folder}"]
block = ["blocked-by-a-file"]
"""


@pytest.fixture(scope="module")
def server(
    start_server: StartServer, provider: ScriptedProvider, folder: Path, redis: RedisServer
) -> OpenCodeServer:
    for name in PLUGINS:
        (folder / f"{name}.py").write_text(PLUGIN)
    provider.script("bad-key", status(401))
    provider.script("of-the-file", stream("Answer of the file's model."))
    provider.script("of-a-variable", stream("Answer of the variable's model."))

    def prepare(home: OpenCodeHome) -> None:
        home.environment.update(
            {
                ADDRESS: redis.url,
                "FALLBACK_PLUGIN_BLOCK": "Blocked-By-A-Variable, another",
                "FALLBACK_PLUGIN__FALLBACK__FALLBACK_MODELS": f"{ref('of-a-variable')},{ref('of-the-file')}",
            }
        )

    server = start_server(
        models=provider_each(["bad-key", "of-the-file", "of-a-variable"]),
        settings=settings(folder, "warning"),
        prepare=prepare,
    )
    server.warm_up("of-bad-key")
    return server


def own_log(folder: Path) -> str:
    return (folder / "logs" / "own.log").read_text()


def test_P8_a_blocked_plugin_is_not_even_imported(server: OpenCodeServer, folder: Path) -> None:
    began = server.events.position

    server.create_session()

    shown = server.events.wait_for(
        lambda event: event["type"] == "tui.toast.show" and event["properties"]["title"] == "A plugin",
        since=began,
    )
    assert shown["properties"]["message"] == "loaded"
    assert [file.stem for file in folder.glob("*.imported")] == ["loaded"]


def test_P8_a_chain_in_the_environment_goes_before_the_files_and_health_is_where_it_is_set(
    server: OpenCodeServer, begin: BeginTurn, folder: Path
) -> None:
    turn = begin(ref("bad-key")).wait_for_switch("Answer of the variable's model.")

    assert turn.asked() == ["bad-key", "of-a-variable"]
    # Then the file of the settings holds the closure, another machine hears of it from the server alone,
    assert (folder / "health.sqlite3").is_file()
    assert closed(server.home.environment | {ADDRESS: ""}) == ["of-bad-key"]
    elsewhere = {"FALLBACK_PLUGIN__HEALTH__FILE": str(folder / "of-another-machine.sqlite3")}
    assert closed(server.home.environment | elsewhere) == ["of-bad-key"]
    # and the switch is explained from beside that file.
    assert f"{ref('bad-key')} → {ref('of-a-variable')}" in server.home.command("explain", turn.session)


def test_P8_the_log_is_written_where_it_is_set_and_holds_what_its_level_says(
    server: OpenCodeServer, folder: Path
) -> None:
    assert not server.home.plugin_log_file.exists()
    assert " INFO " not in own_log(folder)

    began = server.events.position
    server.home.write_settings(settings(folder, "info"))
    assert server.events.wait_for_toast("info", since=began)["message"] == "Settings in force."

    assert "settings changed" in own_log(folder)
    assert "a-password-of-redis" not in own_log(folder)


def closed(environment: dict[str, str]) -> list[str]:
    """Return the providers of what is closed, as a process with this environment sees it."""
    done = subprocess.run(
        [COMMAND, "health", "--json"],
        env=environment,
        cwd=os.sep,
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    entries: list[dict[str, Any]] = json.loads(done.stdout)
    return [entry["provider"] for entry in entries]
