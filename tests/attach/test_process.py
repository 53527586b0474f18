"""The command as a person runs it, against fake servers: signals, exit statuses, figures."""

import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Final, TypeAlias

import anyio
import httpx2
import pytest

from tests.attach.attach_process import AttachProcess
from tests.attach.fake_server import FakeOpenCode, failing_turn

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(30)]

SETTINGS: Final = '[fallback]\nfallback_models = ["spare/a"]\n'

Run: TypeAlias = Callable[..., AttachProcess]


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Run]:
    (tmp_path / "fallback.toml").write_text(SETTINGS)
    with ExitStack() as running:

        def run(*arguments: str, drop_in: str | None = None, **environment: str) -> AttachProcess:
            if drop_in is not None:
                (tmp_path / "plugins").mkdir()
                (tmp_path / "plugins" / "sample.py").write_text(drop_in)
                (tmp_path / "user.toml").write_text(
                    f'{SETTINGS}[plugins]\ndirs = ["{tmp_path / "plugins"}"]\n'
                )
                arguments = (*arguments, "--config", str(tmp_path / "user.toml"))
            process = AttachProcess(
                *arguments, environment={"HOME": str(tmp_path), "TZ": "UTC"} | environment, directory=tmp_path
            )
            return running.enter_context(process)

        yield run


async def said(process: AttachProcess, words: str) -> str:
    return await anyio.to_thread.run_sync(process.wait_for, words)


async def end(process: AttachProcess, number: signal.Signals = signal.SIGTERM) -> int:
    return await anyio.to_thread.run_sync(process.end, number)


async def exit_status(process: AttachProcess) -> int:
    return await anyio.to_thread.run_sync(process.process.wait, 20)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_lets_plugins_say_good_bye(run: Run, tmp_path: Path, number: signal.Signals) -> None:
    drop_in = f"""
from pathlib import Path
from fallback_plugin import hookimpl

@hookimpl
def host_stopping():
    Path({str(tmp_path / "bye")!r}).touch()
"""
    async with FakeOpenCode(directory=str(tmp_path)) as fake:
        process = run(fake.url, drop_in=drop_in)
        await said(process, ": attached (")

        assert await end(process, number) == 0
    assert (tmp_path / "bye").exists()
    assert process.saying("Traceback") == []


async def test_the_level_of_the_log_is_changed_while_it_runs(run: Run, tmp_path: Path) -> None:
    async with FakeOpenCode(directory=str(tmp_path)) as fake:
        process = run(fake.url)
        await said(process, ": attached (")

        (tmp_path / "fallback.toml").write_text(f'{SETTINGS}[log]\nlevel = "error"\n')
        await fake.wait_for(lambda: any("in force" in toast for toast in fake.toasts()))
        (tmp_path / "fallback.toml").write_text(f'{SETTINGS}[log]\nlevel = "info"\n')
        await said(process, "settings changed")

        assert len(process.saying("settings changed")) == 1


@pytest.mark.parametrize("blocked", ["sample", "Sample,fallback"])
async def test_a_plugin_that_a_variable_blocks_is_not_imported(
    run: Run, tmp_path: Path, blocked: str
) -> None:
    async with FakeOpenCode(directory=str(tmp_path)) as fake:
        process = run(fake.url, drop_in="raise RuntimeError('imported')", FALLBACK_PLUGIN_BLOCK=blocked)
        await said(process, ": attached (")

        assert process.saying("imported") == []


async def test_a_plugin_that_hangs_does_not_keep_it(run: Run, tmp_path: Path) -> None:
    drop_in = """
import time
from fallback_plugin import hookimpl

@hookimpl
def host_stopping():
    time.sleep(3600)
"""
    async with FakeOpenCode(directory=str(tmp_path)) as fake:
        process = run(fake.url, drop_in=drop_in)
        await said(process, ": attached (")

        assert await end(process) == 0


async def test_it_stops_while_a_server_is_away(run: Run) -> None:
    async with FakeOpenCode() as fake:
        await fake.close()
        process = run(fake.url)
        await said(process, ": not there: ")

        assert await end(process) == 0


async def test_it_fails_once_every_server_is_given_up(run: Run) -> None:
    async with FakeOpenCode(password="secret") as one, FakeOpenCode(password="secret") as two:
        process = run(one.url, two.url.replace("http://", "http://opencode:bad-secret@"))

        assert await exit_status(process) == 1
    assert len(process.saying("ERROR")) == 3
    assert process.saying("it asks for a password")
    assert process.saying("it refuses the user name or the password")
    assert process.saying("no server is left")
    assert process.saying("secret") == []


async def test_P16_a_proxy_that_cannot_be_used_is_one_line(run: Run) -> None:
    process = run("https://server.example", ALL_PROXY="socks4://127.0.0.1:9")

    assert await exit_status(process) == 1
    assert process.saying("https://server.example: given up: ALL_PROXY begins with socks4://")
    assert process.saying("Traceback") == []


async def test_a_password_of_the_environment_lets_it_in(run: Run) -> None:
    async with FakeOpenCode(password="secret words") as fake:
        process = run(fake.url, "--password-env", "WORDS", WORDS="secret words")
        await said(process, ": attached (")

        assert await end(process) == 0
    assert process.saying("secret") == []


async def test_the_figures_can_be_scraped(run: Run, tmp_path: Path) -> None:
    async with FakeOpenCode(directory=str(tmp_path)) as fake, httpx2.AsyncClient() as http:
        process = run(fake.url, "--metrics", "0")
        await said(process, ": attached (")
        figures = (await said(process, "figures at ")).split("figures at ")[1]
        await fake.send(*failing_turn("ses_1"))
        await fake.wait_for_call("prompt_async")
        answer = await http.get(figures)

        assert figures.startswith("http://127.0.0.1:")
        assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
        lines = answer.text.splitlines()
        assert f'fallback_plugin_attached{{server="{fake.url}"}} 1' in lines
        assert f'fallback_plugin_calls_total{{server="{fake.url}",call="abort"}} 1' in lines
        await fake.close()
        await said(process, ": lost: ")
        assert (
            f'fallback_plugin_attached{{server="{fake.url}"}} 0'
            in (await http.get(figures)).text.splitlines()
        )


async def test_a_port_that_is_taken_is_an_error(run: Run) -> None:
    async with FakeOpenCode() as fake:
        process = run(fake.url, "--metrics", fake.url.rpartition(":")[2])

        assert await exit_status(process) == 1
    assert process.saying("error: ")
    assert process.saying("Traceback") == []


async def test_settings_that_are_wrong_are_an_error_at_the_start(run: Run, tmp_path: Path) -> None:
    await anyio.Path(tmp_path / "fallback.toml").write_text("[fallback\n")
    process = run("http://127.0.0.1:9")

    assert await exit_status(process) == 1
    assert process.saying("error: ")


async def test_what_is_no_server_is_refused_without_its_text(run: Run) -> None:
    process = run("http://127.0.0.1:9", "http://user:secret@host:port")

    assert await exit_status(process) == 2
    assert process.saying("URL number 2")
    assert process.saying("secret") == []


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--directory", "/a", "--all-directories"), "--all-directories"),
        (("--password-env", "NOWHERE"), "NOWHERE holds no password"),
    ],
)
async def test_options_that_make_no_sense_are_refused(run: Run, options: tuple[str, ...], words: str) -> None:
    process = run("http://127.0.0.1:9", *options)

    assert await exit_status(process) == 2
    assert process.saying(words)
