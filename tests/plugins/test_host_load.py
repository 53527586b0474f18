"""Loading plugins into the host: each source, in order, each of them blockable."""

import importlib.metadata
from pathlib import Path
from types import SimpleNamespace

import pytest

from fallback_plugin import hookimpl
from fallback_plugin.plugins import PluginHost, Subscriptions, discovery
from tests.plugins.fake_calls import FakeCalls, host_of, running

pytestmark = pytest.mark.anyio

NAMES = ["bundled", "installed", "dropped", "passed"]
DROP_IN = "from fallback_plugin import hookimpl\n@hookimpl\ndef session_idle(event): pass\n"


class Idle:
    @hookimpl
    def session_idle(self) -> None: ...


class Everything:
    @hookimpl
    def event(self) -> None: ...

    @hookimpl
    def chat_message(self) -> None: ...


@pytest.fixture
def sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Have one plugin in each place; the answer is the drop-in folder."""
    (tmp_path / "dropped.py").write_text(DROP_IN)
    entry = SimpleNamespace(name="installed", dist=None, load=Idle)
    monkeypatch.setattr(importlib.metadata, "entry_points", lambda **_: [entry])
    monkeypatch.setattr(discovery, "BUILTINS", {"bundled": f"{__name__}:Idle"})
    return tmp_path


def names(host: PluginHost) -> list[str]:
    return [plugin.name for plugin in host.plugins]


def test_plugins_are_loaded_from_all_sources_in_order(sources: Path) -> None:
    host = PluginHost(FakeCalls())

    errors = host.load(dirs=[sources], explicit={"passed": Idle()})

    assert errors == ()
    assert names(host) == NAMES


@pytest.mark.parametrize("blocked", NAMES)
def test_each_source_can_be_blocked_by_name(sources: Path, blocked: str) -> None:
    host = PluginHost(FakeCalls())

    host.load(dirs=[sources], explicit={"passed": Idle()}, block=[blocked])

    assert names(host) == [name for name in NAMES if name != blocked]


def test_a_program_may_leave_sources_out(sources: Path) -> None:
    host = PluginHost(FakeCalls())

    host.load(dirs=[sources], builtins=False, entry_points=False)

    assert names(host) == ["dropped"]


def test_a_plugin_that_raises_at_import_is_named_and_the_others_load(
    sources: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (sources / "broken.py").write_text("import no_such_module_anywhere")
    caplog.set_level("DEBUG", logger="fallback_plugin")
    host = PluginHost(FakeCalls())

    (error,) = host.load(dirs=[sources], explicit={"passed": Idle()})

    assert "plugin 'broken'" in str(error)
    assert "cannot be imported: ModuleNotFoundError" in str(error)
    assert names(host) == NAMES
    said, traceback = caplog.records
    assert (said.levelname, said.message, said.exc_info) == ("ERROR", str(error), None)
    assert traceback.levelname == "DEBUG"
    assert traceback.exc_info is not None


def test_plugins_can_be_loaded_step_by_step() -> None:
    host = host_of(first=Idle())

    host.load(explicit={"second": Everything()}, builtins=False, entry_points=False)

    assert names(host) == ["first", "second"]
    assert host.subscriptions == Subscriptions(frozenset({"*"}), frozenset({"chat_message"}))


def test_a_host_without_plugins_wants_nothing() -> None:
    assert host_of().subscriptions == Subscriptions()


def test_a_host_wants_what_its_plugins_implement() -> None:
    assert host_of(Idle()).subscriptions == Subscriptions(frozenset({"session.idle"}))


async def test_a_running_host_takes_no_more_plugins() -> None:
    async with running(host_of()) as host:
        with pytest.raises(RuntimeError, match="before the host runs"):
            host.load()
