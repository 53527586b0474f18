"""Real OpenCode servers without a plugin, and runs of ``attach`` beside them."""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Final, Protocol

import pytest

from tests.attach.attach_process import AttachProcess
from tests.loopback.opencode_home import OpenCodeHome, provider_each
from tests.loopback.opencode_server import OpenCodeServer
from tests.loopback.provider import ScriptedProvider
from tests.loopback.reply import Gate, Reply, status, stream

SETTINGS: Final = '[fallback]\nfallback_models = ["of-fallback-a/fallback-a", "of-fallback-b/fallback-b"]\n'
SCRIPTS: Final[dict[str, Reply]] = {
    "limited": status(429),
    "bad-key": status(401),
    "slow": stream("Half ", Gate(), "an answer."),
    "fallback-a": stream("Answer ", "of a."),
    "fallback-b": stream("Answer ", "of b."),
}


class StartServer(Protocol):
    """Start a server in a home of its own, or in one that is there; it is stopped with the test."""

    def __call__(
        self,
        *,
        home: OpenCodeHome | None = None,
        port: int = 0,
        password: str | None = None,
    ) -> OpenCodeServer: ...


class Attach(Protocol):
    """Attach to servers, with the home of the first, and wait until all are attached.

    The health is that of the home if the plugin is installed there, else one of its own.
    """

    def __call__(
        self,
        *servers: OpenCodeServer,
        options: tuple[str, ...] = (),
        environment: Mapping[str, str] | None = None,
        wait: bool = True,
    ) -> AttachProcess: ...


@pytest.fixture
def running() -> Iterator[ExitStack]:
    with ExitStack() as running:
        yield running


@pytest.fixture(scope="module")
def provider() -> Iterator[ScriptedProvider]:
    with ScriptedProvider({name: [reply] for name, reply in SCRIPTS.items()}) as provider:
        yield provider


@pytest.fixture(scope="module")
def server(
    tmp_path_factory: pytest.TempPathFactory, opencode_binary: Path, provider: ScriptedProvider
) -> Iterator[OpenCodeServer]:
    """Run a server for all tests of the module that leave it as it is."""
    with OpenCodeServer(opencode_binary, new_home(tmp_path_factory, provider)) as server:
        yield server


@pytest.fixture(scope="module")
def server_with_bridge(
    tmp_path_factory: pytest.TempPathFactory, opencode_binary: Path, provider: ScriptedProvider
) -> Iterator[OpenCodeServer]:
    """Run one in which the plugin is installed."""
    home = new_home(tmp_path_factory, provider)
    home.install_plugin(SETTINGS)
    with OpenCodeServer(opencode_binary, home) as server:
        yield server


def new_home(tmp_path_factory: pytest.TempPathFactory, provider: ScriptedProvider) -> OpenCodeHome:
    home = OpenCodeHome(tmp_path_factory.mktemp("opencode"), provider, provider_each(SCRIPTS))
    home.write_settings(SETTINGS)
    return home


@pytest.fixture
def start_server(
    running: ExitStack,
    tmp_path_factory: pytest.TempPathFactory,
    opencode_binary: Path,
    provider: ScriptedProvider,
) -> StartServer:
    def start(
        *,
        home: OpenCodeHome | None = None,
        port: int = 0,
        password: str | None = None,
    ) -> OpenCodeServer:
        if home is None:
            home = new_home(tmp_path_factory, provider)
        return running.enter_context(OpenCodeServer(opencode_binary, home, port=port, password=password))

    return start


@pytest.fixture
def attach(running: ExitStack, tmp_path_factory: pytest.TempPathFactory) -> Attach:
    def attach(
        *servers: OpenCodeServer,
        options: tuple[str, ...] = (),
        environment: Mapping[str, str] | None = None,
        wait: bool = True,
    ) -> AttachProcess:
        home = servers[0].home
        shares_health = home.plugin_file.exists()
        state = {} if shares_health else {"XDG_STATE_HOME": str(tmp_path_factory.mktemp("state"))}
        process = AttachProcess(
            *(server.url for server in servers),
            *options,
            environment=home.environment | state | dict(environment or {}),
            directory=home.directory,
        )
        running.enter_context(process)
        if wait:
            process.wait_for(": attached (", count=len(servers))
        return process

    return attach
