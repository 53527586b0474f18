"""Real OpenCode servers for the tests of this folder, and their logs in the report of a failed test."""

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Protocol

import pytest

from tests.loopback.opencode_home import OpenCodeHome
from tests.loopback.opencode_server import OpenCodeServer
from tests.loopback.provider import ScriptedProvider
from tests.loopback.turn import PROMPT, Turn


class StartServer(Protocol):
    """Start a server with the plugin installed; it is stopped with the test module."""

    def __call__(
        self,
        *,
        models: Mapping[str, Sequence[str]],
        settings: str,
        config: Mapping[str, Any] | None = None,
        npm: Mapping[str, str] | None = None,
        prepare: Callable[[OpenCodeHome], None] | None = None,
    ) -> OpenCodeServer: ...


class BeginTurn(Protocol):
    """Hand a prompt in on the module's server; what still runs is stopped with the test."""

    def __call__(
        self, model: str, *, agent: str = ..., session: str | None = ..., text: str = ...
    ) -> Turn: ...


@pytest.fixture(scope="module")
def provider() -> Iterator[ScriptedProvider]:
    with ScriptedProvider() as provider:
        yield provider


@pytest.fixture(scope="module")
def start_server(
    tmp_path_factory: pytest.TempPathFactory, opencode_binary: Path, provider: ScriptedProvider
) -> Iterator[StartServer]:
    with ExitStack() as running:

        def start(
            *,
            models: Mapping[str, Sequence[str]],
            settings: str,
            config: Mapping[str, Any] | None = None,
            npm: Mapping[str, str] | None = None,
            prepare: Callable[[OpenCodeHome], None] | None = None,
        ) -> OpenCodeServer:
            home = OpenCodeHome(tmp_path_factory.mktemp("opencode"), provider, models, config, npm=npm)
            home.install_plugin(settings)
            if prepare:
                prepare(home)
            return running.enter_context(OpenCodeServer(opencode_binary, home))

        yield start


@pytest.fixture
def begin(server: OpenCodeServer, provider: ScriptedProvider) -> Iterator[BeginTurn]:
    turns = []

    def begin(model: str, *, agent: str = "build", session: str | None = None, text: str = PROMPT) -> Turn:
        turns.append(Turn.begin(server, provider, model, agent=agent, session=session, text=text))
        return turns[-1]

    yield begin
    for turn in turns:
        # A turn that was not saved may ask its model for ever.
        if server.is_busy(turn.session):
            turn.stop()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Function,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    server = item.funcargs.get("server")
    if report.failed and isinstance(server, OpenCodeServer):
        report.sections.append(("logs of OpenCode", server.home.logs()))
    return report
