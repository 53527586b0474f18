"""Settings that change while the host runs: what begins after that uses them, what is under way goes on."""

import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import httpx2
import pytest

from fallback_plugin.agent.host import Place
from fallback_plugin.agent.http.guard import Rules
from fallback_plugin.agent.http.server import listening, url_of
from fallback_plugin.agent.serving import Service
from fallback_plugin.errors import SettingsError
from fallback_plugin.model_ref import ModelRef
from tests.agent.whole_host import complete, new_session, prompt, running_host, settings_for
from tests.loopback.event_log import EventLog
from tests.loopback.provider import ScriptedProvider
from tests.loopback.reply import Gate, stream, tool_call

pytestmark = pytest.mark.anyio


COUNTS = """
from pathlib import Path
from fallback_plugin import hookimpl

@hookimpl
def settings_changed(settings):
    with Path(__file__).with_name("told").open("a") as told:
        told.write(" ".join(settings.providers["fake"].models) + "\\n")
"""


async def becomes(http: httpx2.AsyncClient, model: str) -> None:
    """Wait until the host lists this model and no other."""
    with anyio.fail_after(8):
        while await listed(http) != {model}:
            pass


async def test_a_changed_provider_counts_for_the_next_run_and_breaks_no_answer(
    provider: ScriptedProvider, tmp_path: Path
) -> None:
    gate = Gate()
    provider.script("first", stream("The old ", gate, "one."))
    with ScriptedProvider({"first": [stream("The new one.")]}) as other:
        async with running_host(tmp_path, settings_for(provider)) as host:
            before, after = await new_session(host), await new_session(host)
            under_way = await host.dispatcher.accept(before, prompt())
            await anyio.to_thread.run_sync(provider.wait_for, lambda: bool(provider.requests("first")))
            await host.apply(settings_for(other))
            await complete(host, after)
            gate.open()
            await host.dispatcher.wait(under_way.run.id)

            answers = [(await host.history(session))[-1]["parts"] for session in (before, after)]
            texts = [part["text"] for parts in answers for part in parts if part["type"] == "text"]
            assert texts == ["The old one.", "The new one."]


async def test_a_model_that_settings_name_anew_can_be_asked_and_the_default_follows(
    provider: ScriptedProvider, tmp_path: Path
) -> None:
    provider.script("third", stream("Yes."))
    third = ModelRef("fake", "third")
    async with running_host(tmp_path, settings_for(provider)) as host:
        session = await new_session(host)
        assert (await complete(host, session, model=third)).outcome == "failed"

        fake = {"base_url": provider.url, "models": ["third"]}
        await host.apply(settings_for(provider, providers={"fake": fake}, serve={"model": str(third)}))

        assert host.models.default == third
        assert (await complete(host, session, model=third)).outcome == "completed"


async def test_a_key_that_settings_name_anew_is_not_shown_to_commands(
    provider: ScriptedProvider, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("THE_KEY", "s3cret")
    provider.script("first", tool_call("bash", {"command": 'echo "<$THE_KEY>" > shown'}), stream("Done."))
    async with running_host(tmp_path, settings_for(provider), environ={"THE_KEY": "s3cret"}) as host:
        fake = {"base_url": provider.url, "models": ["first"], "api_key_env": "THE_KEY"}
        await host.apply(settings_for(provider, providers={"fake": fake}, permissions={"bash": "allow"}))
        await complete(host, await new_session(host))

    assert (tmp_path / "shown").read_text() == "<>\n"
    assert provider.requests("first")[0].headers["authorization"] == "Bearer s3cret"


async def listed(http: httpx2.AsyncClient) -> set[str]:
    providers = (await http.get("/config/providers")).json()["providers"]
    return {f"{each['id']}/{model}" for each in providers for model in each["models"]}


@pytest.fixture
def listener() -> socket.socket:
    return listening("127.0.0.1", 0)


@asynccontextmanager
async def serving(
    listener: socket.socket, provider: ScriptedProvider, root: Path, text: str | None = None, more: str = ""
) -> AsyncIterator[tuple[Path, str]]:
    """Serve by a settings file; return it, and its text with a place for the name of the only model."""
    file = root / "fallback.toml"
    table = f'[providers.fake]\nbase_url = "{provider.url}"\nmodels = ["{{}}"]\n{more}'
    file.write_text(table.format("first") if text is None else text)
    ready, stop = anyio.Event(), anyio.Event()
    service = Service(
        place=Place(data=root / "data", directory=root, environ={"HOME": str(root)}),
        settings_file=file,
        listener=listener,
        rules=Rules(),
        ready=ready.set,
    )
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(lambda: service.serve(stop=stop))
        await ready.wait()
        yield file, table
        stop.set()


async def test_serve_hands_its_settings_to_plugins_once_at_the_start(
    listener: socket.socket, provider: ScriptedProvider, tmp_path: Path
) -> None:
    (tmp_path / "plugins").mkdir()
    (tmp_path / "plugins" / "counts.py").write_text(COUNTS)
    async with (
        serving(listener, provider, tmp_path, more=f'[plugins]\ndirs = ["{tmp_path / "plugins"}"]\n') as (
            file,
            table,
        ),
        httpx2.AsyncClient(base_url=url_of(listener)) as http,
    ):
        assert await listed(http) == {"fake/first"}
        file.write_text(table.format("second"))
        await becomes(http, "fake/second")
    assert (tmp_path / "plugins" / "told").read_text().split() == ["first", "second"]


async def test_a_plugin_that_cannot_be_imported_is_one_line_of_the_log_of_serve(
    listener: socket.socket, provider: ScriptedProvider, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    broken = tmp_path / "plugins" / "broken.py"
    broken.parent.mkdir()
    broken.write_text("import there_is_no_such_module\n")
    async with serving(listener, provider, tmp_path, more=f'[plugins]\ndirs = ["{broken.parent}"]\n'):
        pass
    (record,) = (each for each in caplog.records if "there_is_no_such_module" in each.getMessage())
    assert str(broken) in record.getMessage()
    assert record.exc_info is None


async def test_serve_takes_a_changed_file(
    listener: socket.socket, provider: ScriptedProvider, tmp_path: Path
) -> None:
    async with (
        serving(listener, provider, tmp_path) as (file, table),
        httpx2.AsyncClient(base_url=url_of(listener)) as http,
    ):
        assert await listed(http) == {"fake/first"}
        file.write_text(table.format("second"))
        await becomes(http, "fake/second")


async def test_serve_starts_by_what_a_broken_file_held_before_and_says_so(
    provider: ScriptedProvider, tmp_path: Path
) -> None:
    async with serving(listening("127.0.0.1", 0), provider, tmp_path) as (file, table):
        pass
    port = listening("127.0.0.1", 0)
    async with (
        serving(port, provider, tmp_path, text="[fallback") as (file, table),
        httpx2.AsyncClient(base_url=url_of(port)) as http,
    ):
        assert await listed(http) == {"fake/first"}
        events = EventLog(url_of(port))
        await anyio.to_thread.run_sync(events.start)
        file.write_text(table.format("second"))
        await anyio.to_thread.run_sync(events.wait_for_toast, "info")
        assert await listed(http) == {"fake/second"}
    await anyio.to_thread.run_sync(events.join)


async def test_serve_does_not_start_by_a_broken_file_of_which_nothing_is_known(
    listener: socket.socket, tmp_path: Path
) -> None:
    file = tmp_path / "fallback.toml"
    file.write_text("[fallback")
    place = Place(data=tmp_path / "data", directory=tmp_path, environ={"HOME": str(tmp_path)})
    service = Service(place=place, settings_file=file, listener=listener, rules=Rules(), ready=lambda: None)
    with listener, pytest.raises(SettingsError, match=r"fallback\.toml:1:"):
        await service.serve(stop=anyio.Event())


async def test_serve_says_what_is_wrong_with_a_file_and_when_a_changed_one_is_in_force(
    listener: socket.socket, provider: ScriptedProvider, tmp_path: Path
) -> None:
    """In the words that OpenCode's users read."""
    async with serving(listener, provider, tmp_path) as (file, table):
        events = EventLog(url_of(listener))
        await anyio.to_thread.run_sync(events.start)
        file.write_text("[fallback")
        wrong = await anyio.to_thread.run_sync(events.wait_for_toast, "error")
        file.write_text(table.format("second"))
        mended = await anyio.to_thread.run_sync(events.wait_for_toast, "info")
    await anyio.to_thread.run_sync(events.join)

    assert wrong["title"] == "Fallback settings are wrong"
    assert f"{file}:1:" in wrong["message"]
    assert wrong["message"].endswith("\nUntil that is mended, the last good settings stay.")
    assert (mended["title"], mended["message"]) == ("Fallback settings", "Settings in force.")
