"""Real OpenCode servers without a plugin, and runs of ``attach`` beside them."""

from collections.abc import Callable, Iterator, Mapping
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
        prepare: Callable[[OpenCodeHome], object] | None = None,
    ) -> OpenCodeServer: ...


class Attach(Protocol):
    """Attach to servers, with the home of the first, and wait until all are attached."""

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


@pytest.fixture
def provider(running: ExitStack) -> ScriptedProvider:
    return running.enter_context(ScriptedProvider({name: [reply] for name, reply in SCRIPTS.items()}))


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
        prepare: Callable[[OpenCodeHome], object] | None = None,
    ) -> OpenCodeServer:
        if home is None:
            home = OpenCodeHome(tmp_path_factory.mktemp("opencode"), provider, provider_each(SCRIPTS))
            home.write_settings(SETTINGS)
            if prepare:
                prepare(home)
        return running.enter_context(OpenCodeServer(opencode_binary, home, port=port, password=password))

    return start


@pytest.fixture
def attach(running: ExitStack) -> Attach:
    def attach(
        *servers: OpenCodeServer,
        options: tuple[str, ...] = (),
        environment: Mapping[str, str] | None = None,
        wait: bool = True,
    ) -> AttachProcess:
        home = servers[0].home
        process = AttachProcess(
            *(server.url for server in servers),
            *options,
            environment=home.environment | dict(environment or {}),
            directory=home.directory,
        )
        running.enter_context(process)
        if wait:
            process.wait_for(": attached (", count=len(servers))
        return process

    return attach
