"""Servers that come, go and come back, with the plugins beside them."""

import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, Final, NoReturn, TypeAlias

import anyio
import pytest

from fallback_plugin.attach.folder import SettingsPlace
from fallback_plugin.attach.server import QUIET_S, AttachedServer, Folders
from fallback_plugin.attach.target import read_target
from fallback_plugin.hookspecs import ACTIVITY_EVERY_S
from tests.attach.fake_server import (
    RETRY,
    FakeOpenCode,
    answer,
    ended,
    event,
    failing_turn,
    refused_turn,
    status_is,
    updated,
    user,
)

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(30)]

SETTINGS: Final = '[fallback]\nfallback_models = ["spare/a", "spare/b"]\n'
SPARE: Final = {"providerID": "spare", "modelID": "a"}

DROP_IN: Final = """
from fallback_plugin import HostClient, Toast, hookimpl

@hookimpl
async def session_status(event, host: HostClient):
    await host.toast(Toast(title="status", message=f"{event.session_id} {event.status}"))

@hookimpl
async def session_idle(event, host: HostClient):
    await host.toast(Toast(title="idle", message=event.session_id))

@hookimpl
async def message_updated(event, host: HostClient):
    await host.toast(Toast(title="message", message=event.message.id))

@hookimpl
async def host_stopping(host: HostClient):
    await host.toast(Toast(title="bye", message=host.directory))
"""


SLOW_START: Final = """
from fallback_plugin import HostClient, Toast, hookimpl

@hookimpl
async def host_started(host: HostClient):
    await host.toast(Toast(title="starting", message="up"))
"""


class Waits:
    """Stands in for time between tries: a wait is over at once, and written down."""

    def __init__(self) -> None:
        self.asked_for: list[float] = []

    async def __call__(self, seconds: float) -> None:
        self.asked_for.append(seconds)
        await anyio.sleep(0.001)


class Silences:
    """Stands in for the time that a model's silence takes: it is over when a test says so."""

    def __init__(self) -> None:
        self.waited_for: list[float] = []
        self._over = anyio.Event()

    async def __call__(self, seconds: float) -> None:
        self.waited_for.append(seconds)
        try:
            await self._over.wait()
        finally:
            self.waited_for.remove(seconds)

    def end(self) -> None:
        """Let all the time pass that is waited for now."""
        self._over.set()
        self._over = anyio.Event()


@pytest.fixture
def silences(settings: Path, monkeypatch: pytest.MonkeyPatch) -> Silences:
    settings.write_text(f"{SETTINGS}first_token_timeout = 50\nstall_timeout = 80\n")
    silences = Silences()
    monkeypatch.setattr("fallback_plugin.fallback.timers.sleep", silences)
    return silences


Attach: TypeAlias = Callable[..., Awaitable[AttachedServer]]


@pytest.fixture(autouse=True)
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give this process an empty home with settings; a test may rewrite them before it attaches."""
    monkeypatch.setenv("HOME", str(tmp_path))
    for variable in ("XDG_CONFIG_HOME", "XDG_STATE_HOME", "FALLBACK_PLUGIN_BLOCK"):
        monkeypatch.delenv(variable, raising=False)
    file = tmp_path / "settings.toml"
    file.write_text(SETTINGS)
    return file


@pytest.fixture
def drop_in(settings: Path, tmp_path: Path) -> None:
    """Let a plugin show every event it gets as a toast, alone."""
    (tmp_path / "plugins").mkdir()
    (tmp_path / "plugins" / "shows.py").write_text(DROP_IN)
    settings.write_text(f'[plugins]\nblock = ["fallback"]\ndirs = ["{tmp_path / "plugins"}"]\n')


@pytest.fixture(autouse=True)
def said(caplog: pytest.LogCaptureFixture) -> Iterator[Callable[[str], list[str]]]:
    """Return what was logged that holds some words."""
    caplog.set_level(logging.INFO)

    def said(words: str) -> list[str]:
        lines = (record for record in caplog.records if record.name.startswith("fallback_plugin.attach."))
        return [line.getMessage() for line in lines if words in line.getMessage()]

    yield said
    assert "secret" not in caplog.text


Said: TypeAlias = Callable[[str], list[str]]


@pytest.fixture
def waits() -> Waits:
    return Waits()


@asynccontextmanager
async def attached(
    settings: Path,
    waits: Waits,
    *fakes: FakeOpenCode,
    folders: Folders = Folders(),  # noqa: B008 -- frozen
    password: str | None = None,
    clock: Callable[[], float] = lambda: 0.0,
) -> AsyncIterator[list[AttachedServer]]:
    """Attach to servers, and leave them in good order."""
    place = SettingsPlace({"HOME": str(settings.parent)}, settings.parent, settings)
    servers = [
        AttachedServer(
            read_target(fake.url, password), folders, place, draw=lambda: 0.0, clock=clock, sleep=waits
        )
        for fake in fakes
    ]
    with anyio.fail_after(25):
        async with anyio.create_task_group() as tasks:
            for server in servers:
                tasks.start_soon(server.run)
            yield servers
            for server in servers:
                server.stop()


async def until(condition: Callable[[], bool]) -> None:
    """Wait for what no server is told of: a try in vain, a line of the log."""
    while not condition():  # noqa: ASYNC110 -- there is nothing to wait on
        await anyio.sleep(0.001)


async def caught_up(fake: FakeOpenCode, times: int = 1) -> None:
    """Wait until a server has been asked so often which sessions run."""
    await fake.wait_for(lambda: fake.requests.count("/session/status") >= times)


async def lost_in_a_silence(fake: FakeOpenCode, waits: Waits, silences: Silences) -> None:
    """Lose a server while a model is given its time to begin, and look for it in vain a few times."""
    await caught_up(fake)
    await fake.send(*failing_turn("ses_1")[:3])
    await until(lambda: silences.waited_for == [50])
    await fake.close()
    await until(lambda: len(waits.asked_for) >= 3)


async def test_a_failing_turn_is_switched(settings: Path, waits: Waits) -> None:
    async with FakeOpenCode() as fake, attached(settings, waits, fake) as (server,):
        await caught_up(fake)
        fake.statuses["ses_1"] = {"type": "retry", **RETRY}
        await fake.send(*failing_turn("ses_1"))
        prompt = await fake.wait_for_call("/session/ses_1/prompt_async")

        assert prompt.directory == "/project"
        assert prompt.body["model"] == SPARE
        assert [call.path for call in fake.calls if "toast" not in call.path][:1] == ["/session/ses_1/abort"]
        assert server.counts.attached


async def test_a_turn_whose_run_somebody_else_is_stopping_is_left_alone(settings: Path, waits: Waits) -> None:
    """OpenCode answers a second abort at once, while the first still ends the run."""
    async with FakeOpenCode() as fake, attached(settings, waits, fake):
        await caught_up(fake)
        fake.stopped_by_others.add("ses_1")
        fake.statuses["ses_1"] = {"type": "retry", "attempt": 1, "message": "Rate limit", "next": 1}
        await fake.send(*failing_turn("ses_1"))
        await fake.wait_for_call("/session/ses_1/abort")
        await caught_up(fake, 3)  # a look before the abort, and one after it
        del fake.statuses["ses_1"]
        await fake.send(*failing_turn("ses_2", "other/m"))
        await fake.wait_for_call("/session/ses_2/prompt_async")

        assert fake.called("/session/ses_1/prompt_async") == []


async def test_a_run_that_failed_for_good_is_left_to_end(settings: Path, waits: Waits) -> None:
    """An abort of ours would hide the user's: OpenCode publishes nothing of one in a run that is ending."""
    async with FakeOpenCode() as fake, attached(settings, waits, fake):
        fake.ending["ses_1"] = 2
        fake.histories["ses_1"] = history("main/m", completed=3)
        await fake.send(*refused_turn("ses_1"))
        prompt = await fake.wait_for_call("/session/ses_1/prompt_async")

        assert prompt.body["model"] == SPARE
        assert fake.ending["ses_1"] == 0
        assert fake.called("/session/ses_1/abort") == []


async def test_a_stop_while_it_ends_is_heard(settings: Path, waits: Waits) -> None:
    async with FakeOpenCode() as fake, attached(settings, waits, fake):
        fake.ending["ses_1"] = 2
        fake.histories["ses_1"] = history("main/m")
        await fake.send(*refused_turn("ses_1"))
        await fake.wait_for(lambda: "/session/ses_1/message?limit=10" in fake.requests)
        await fake.send(*failing_turn("ses_2", "other/m"))
        await fake.wait_for_call("/session/ses_2/prompt_async")

        assert fake.called("/session/ses_1/prompt_async") == []


async def test_twenty_servers_are_looked_after_at_once(settings: Path, waits: Waits) -> None:
    async with AsyncExitStack() as running:
        fakes = [await running.enter_async_context(FakeOpenCode(directory=f"/p{n}")) for n in range(20)]
        servers = await running.enter_async_context(attached(settings, waits, *fakes))
        async with anyio.create_task_group() as sending:
            for number, fake in enumerate(fakes):
                fake.statuses[f"ses_{number}"] = {"type": "retry", **RETRY}
                # Each fails on a model of its own: one that cools is shared by all.
                sending.start_soon(fake.send, *failing_turn(f"ses_{number}", f"main{number}/m"))
        for number, fake in enumerate(fakes):
            prompt = await fake.wait_for_call("prompt_async")
            assert (prompt.path, prompt.directory) == (f"/session/ses_{number}/prompt_async", f"/p{number}")
        for fake, server in zip(fakes, servers, strict=True):
            assert len(fake.called("prompt_async")) == len(fake.called("abort")) == 1
            assert server.counts.calls["prompt"] == 1


async def test_decisions_are_counted(settings: Path, waits: Waits) -> None:
    async with FakeOpenCode() as fake, attached(settings, waits, fake) as (server,):
        await fake.send(*failing_turn("ses_1"))
        await fake.wait_for_call("prompt_async")
        step = answer("msg_13", "ses_1", "msg_11", "spare/a")
        part = {"id": "prt_1", "messageID": "msg_13", "sessionID": "ses_1", "type": "text", "text": "Hello"}
        await fake.send(
            updated(user("msg_11", "ses_1", "spare/a")),
            status_is("ses_1", "busy"),
            updated(step),
            event("message.part.updated", sessionID="ses_1", part=part),
        )
        await fake.wait_for(lambda: any("spare/a" in toast for toast in fake.toasts()[1:]))

        assert server.counts.decisions == {"switches": 1}


async def test_a_lost_server_is_tried_until_it_is_back_and_said_once(
    settings: Path, waits: Waits, said: Said
) -> None:
    async with FakeOpenCode() as fake, attached(settings, waits, fake) as (server,):
        await caught_up(fake)
        await fake.close()
        await until(lambda: len(waits.asked_for) >= 10)
        assert not server.counts.attached
        await fake.open()
        await caught_up(fake, 2)
        await fake.send(*failing_turn("ses_1"))
        await fake.wait_for_call("prompt_async")

        assert server.counts.reconnects == 1
    assert waits.asked_for[:7] == [0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 15.0]
    assert [len(said(words)) for words in (": attached (", ": lost: ", ": attached again (")] == [1, 1, 1]


async def test_waits_begin_anew_after_a_healthy_minute(settings: Path, waits: Waits) -> None:
    now = 0.0
    async with FakeOpenCode() as fake, attached(settings, waits, fake, clock=lambda: now):
        for times, healthy_s in enumerate((1.0, 59.0, 61.0, 1.0), 1):
            await caught_up(fake, times)
            await fake.send(status_is("ses_1", "idle"))
            now += healthy_s
            await fake.drop()
        await caught_up(fake, 5)

    assert waits.asked_for == [0.5, 1.0, 0.5, 1.0]


async def test_a_server_that_is_not_there_yet_is_waited_for(settings: Path, waits: Waits, said: Said) -> None:
    async with FakeOpenCode() as fake:
        await fake.close()
        async with attached(settings, waits, fake):
            await until(lambda: len(waits.asked_for) >= 3)
            await fake.open()
            await fake.send(*failing_turn("ses_1"))
            await fake.wait_for_call("prompt_async")

    assert len(said(": not there: ")) == 1


async def test_a_wait_that_began_unheard_is_switched(settings: Path, waits: Waits) -> None:
    async with FakeOpenCode() as fake, attached(settings, waits, fake):
        await caught_up(fake)
        await fake.close()
        fake.statuses = {"ses_1": {"type": "retry", **RETRY}}
        fake.histories = {"ses_1": history("main/m")}
        await fake.open()

        assert (await fake.wait_for_call("prompt_async")).body["messageID"] == "msg_11"


async def test_a_wait_that_began_before_is_switched(settings: Path, waits: Waits) -> None:
    async with FakeOpenCode() as fake:
        fake.statuses = {"ses_1": {"type": "retry", **RETRY}}
        fake.histories = {"ses_1": history("main/m")}
        async with attached(settings, waits, fake):
            assert (await fake.wait_for_call("prompt_async")).body["messageID"] == "msg_11"


async def test_no_silence_is_judged_while_a_server_is_lost(
    settings: Path, waits: Waits, silences: Silences
) -> None:
    async with FakeOpenCode() as fake, attached(settings, waits, fake) as (server,):
        await lost_in_a_silence(fake, waits, silences)
        silences.end()
        await until(lambda: len(waits.asked_for) >= 6)

        assert server.counts.calls["abort"] == 0
        fake.statuses = {"ses_1": {"type": "busy"}}
        fake.histories = {"ses_1": history("main/m")}
        await fake.open()
        await until(lambda: silences.waited_for == [50])
        silences.end()
        assert (await fake.wait_for_call("prompt_async")).body["model"] == SPARE


async def test_a_silent_turn_that_began_before_is_judged_from_the_time_of_attaching(
    settings: Path, waits: Waits, silences: Silences
) -> None:
    async with FakeOpenCode() as fake:
        fake.statuses = {"ses_1": {"type": "busy"}}
        fake.histories = {"ses_1": history("main/m")}
        async with attached(settings, waits, fake):
            await until(lambda: silences.waited_for == [50])
            silences.end()

            assert (await fake.wait_for_call("prompt_async")).body["messageID"] == "msg_11"


async def test_an_answer_that_began_before_has_the_time_to_go_on(
    settings: Path, waits: Waits, silences: Silences
) -> None:
    async with FakeOpenCode() as fake:
        asked, step = history("main/m")
        part = {"id": "prt_1", "messageID": "msg_12", "sessionID": "ses_1", "type": "text", "text": "Hello"}
        fake.statuses = {"ses_1": {"type": "busy"}}
        fake.histories = {"ses_1": [asked, {**step, "parts": [part]}]}
        async with attached(settings, waits, fake):
            await until(lambda: silences.waited_for == [80 + ACTIVITY_EVERY_S])


async def test_a_model_that_answered_unheard_is_not_blamed(
    settings: Path, waits: Waits, silences: Silences
) -> None:
    async with FakeOpenCode() as fake, attached(settings, waits, fake) as (server,):
        await lost_in_a_silence(fake, waits, silences)
        await fake.open()
        await until(lambda: server.counts.reconnects == 1)
        await until(lambda: not silences.waited_for)
        silences.end()
        await fake.send(*failing_turn("ses_2", "main/other"))
        await fake.wait_for_call("/session/ses_2/prompt_async")

        assert fake.called("/session/ses_1/") == []


async def test_an_answer_that_went_on_unheard_is_given_its_time_anew(
    settings: Path, waits: Waits, silences: Silences
) -> None:
    async with FakeOpenCode() as fake, attached(settings, waits, fake):
        await lost_in_a_silence(fake, waits, silences)
        asked, step = history("main/m")
        part = {"id": "prt_1", "messageID": "msg_12", "sessionID": "ses_1", "type": "text", "text": "Hello"}
        fake.statuses = {"ses_1": {"type": "busy"}}
        fake.histories = {"ses_1": [asked, {**step, "parts": [part]}]}
        await fake.open()
        await until(lambda: silences.waited_for == [80 + ACTIVITY_EVERY_S])

        assert fake.called("/session/ses_1/") == []


async def test_silences_of_a_folder_that_cannot_be_caught_up_with_are_forgotten(
    settings: Path, waits: Waits, silences: Silences
) -> None:
    everywhere = Folders(everywhere=True)
    async with FakeOpenCode() as fake, attached(settings, waits, fake, folders=everywhere):
        await fake.send(*(in_folder("/one", raw) for raw in failing_turn("ses_1")[:3]))
        await caught_up(fake)
        await until(lambda: silences.waited_for == [50])
        await fake.close()
        await until(lambda: len(waits.asked_for) >= 3)
        fake.refused["/session/status"] = 500
        await fake.open()
        await fake.send(*(in_folder("/one", raw) for raw in failing_turn("ses_2", "other/m")[:3]))
        await caught_up(fake, 2)
        await until(lambda: silences.waited_for == [50])
        silences.end()
        await fake.wait_for_call("/session/ses_2/abort")

        assert fake.called("/session/ses_1/") == []


async def test_a_turn_that_began_unheard_is_not_taken_for_the_one_before(
    settings: Path, waits: Waits
) -> None:
    async with FakeOpenCode() as fake, attached(settings, waits, fake):
        await fake.send(*failing_turn("ses_1")[:3])
        await fake.send(*ended("ses_1"))
        await caught_up(fake)
        await fake.close()
        fake.statuses = {"ses_1": {"type": "retry", **RETRY}}
        fake.histories = {"ses_1": [*history("main/m"), *history("main/other", 2)]}
        await fake.open()
        prompt = await fake.wait_for_call("prompt_async")

        assert prompt.body["messageID"] == "msg_21"


def history(model: str, number: int = 1, *, completed: int | None = None) -> list[dict[str, Any]]:
    """Return a turn as the host stores it, under way or with a completed answer."""
    asked = user(f"msg_{number}1", "ses_1", model)
    step = answer(f"msg_{number}2", "ses_1", asked["id"], model)
    if completed is not None:
        step["time"] = {"created": 2, "completed": completed}
    return [{"info": asked, "parts": []}, {"info": step, "parts": []}]


async def test_a_session_whose_history_cannot_be_read_is_no_harm_to_the_others(
    settings: Path, waits: Waits, said: Said
) -> None:
    async with FakeOpenCode() as fake, attached(settings, waits, fake):
        await caught_up(fake)
        await fake.close()
        fake.statuses = {"ses_0": {"type": "retry", **RETRY}, "ses_1": {"type": "retry", **RETRY}}
        fake.refused["/session/ses_0/message"] = 500
        fake.histories = {"ses_1": history("main/m")}
        await fake.open()
        await fake.wait_for_call("/session/ses_1/prompt_async")

        assert fake.called("/session/ses_0/") == []
    assert len(said("what session ses_0 does is not known")) == 1


async def test_a_connection_lost_while_plugins_start_leaves_them_whole(settings: Path, waits: Waits) -> None:
    plugins = settings.parent / "plugins"
    await anyio.Path(plugins).mkdir()
    await anyio.Path(plugins / "slow.py").write_text(SLOW_START)
    await anyio.Path(settings).write_text(f'{SETTINGS}[plugins]\ndirs = ["{plugins}"]\n')
    everywhere = Folders(everywhere=True)
    async with FakeOpenCode() as fake, attached(settings, waits, fake, folders=everywhere) as (server,):
        fake.answering.clear()
        await fake.send(in_folder("/one", status_is("ses_1", "idle")))
        await fake.wait_for_call("/tui/show-toast")
        await fake.drop()
        await anyio.wait_all_tasks_blocked()
        fake.answering.set()
        await until(lambda: server.counts.reconnects == 1)
        await fake.send(*(in_folder("/one", raw) for raw in failing_turn("ses_1")))
        await fake.wait_for_call("prompt_async")

        assert [toast for toast in fake.toasts() if "starting" in toast] == ["starting: up"]


@pytest.mark.usefixtures("drop_in")
async def test_plugins_hear_what_went_on_while_nobody_listened(settings: Path, waits: Waits) -> None:
    async with FakeOpenCode() as fake, attached(settings, waits, fake):
        await fake.send(
            status_is("ses_1", "busy"), status_is("ses_2", "busy"), status_is("ses_3", "retry", **RETRY)
        )
        await fake.wait_for(lambda: len(fake.toasts()) == 3)
        await fake.close()
        fake.statuses = {"ses_2": {"type": "busy"}, "ses_4": {"type": "retry", **RETRY}}
        await fake.open()
        await fake.wait_for(lambda: len(fake.toasts()) == 9)

        assert sorted(fake.toasts()[3:]) == [
            "idle: ses_1",
            "idle: ses_3",
            "status: ses_1 idle",
            "status: ses_2 busy",
            "status: ses_3 idle",
            "status: ses_4 retry",
        ]


@pytest.mark.usefixtures("drop_in")
async def test_plugins_are_told_when_it_ends(settings: Path, waits: Waits) -> None:
    async with FakeOpenCode() as fake:
        async with attached(settings, waits, fake):
            await caught_up(fake)

        assert fake.toasts() == ["bye: /project"]


async def test_a_wrong_password_ends_one_server_and_not_the_others(
    settings: Path, waits: Waits, said: Said
) -> None:
    async with (
        FakeOpenCode(password="secret") as closed,
        FakeOpenCode() as fake,
        attached(settings, waits, closed, fake, password="wrong secret") as (refused, server),
    ):
        await fake.send(*failing_turn("ses_1"))
        await fake.wait_for_call("prompt_async")
        await until(lambda: refused.gave_up)

        assert not server.gave_up
    assert said("given up: it refuses the user name or the password (HTTP 401)")
    assert not waits.asked_for


async def test_a_missing_password_is_asked_for(settings: Path, waits: Waits, said: Said) -> None:
    async with FakeOpenCode(password="secret") as fake, attached(settings, waits, fake) as (server,):
        await until(lambda: server.gave_up)

    assert said(
        "given up: it asks for a password: name the variable that holds it with --password-env (HTTP 401)"
    )


async def test_a_server_that_is_no_opencode_is_said_to_look_like_none(
    settings: Path, waits: Waits, said: Said
) -> None:
    async with FakeOpenCode() as fake:
        fake.refused["/global/health"] = 404
        async with attached(settings, waits, fake):
            await until(lambda: bool(waits.asked_for))

    (line,) = said(": not there: ")
    assert "this does not look like an OpenCode server: GET /global/health: " in line
    assert "(HTTP 404)" in line


async def test_a_server_that_let_us_in_before_is_tried_again(
    settings: Path, waits: Waits, said: Said
) -> None:
    async with FakeOpenCode(password="secret") as fake:
        async with attached(settings, waits, fake, password="secret") as (server,):
            await caught_up(fake)
            fake.password = "another secret"  # noqa: S105 -- of a fake
            await fake.drop()
            await until(lambda: len(waits.asked_for) >= 3)
            fake.password = "secret"  # noqa: S105 -- of a fake
            await caught_up(fake, 2)
            assert not server.gave_up

        assert waits.asked_for[1:3] == [15.0, 15.0]
    assert len(said(": lost: ")) == 1


async def test_several_folders_of_one_server_have_their_own_plugins(
    settings: Path, waits: Waits, said: Said
) -> None:
    folders = Folders(("/one", "/two"))
    async with FakeOpenCode() as fake, attached(settings, waits, fake, folders=folders):
        await caught_up(fake, 2)
        # The fake sends every event to both: the lease lets one of the two act.
        await fake.send(*failing_turn("ses_1"), heard=2)
        prompt = await fake.wait_for_call("prompt_async")

        assert prompt.directory in folders.directories
        await fake.drop()
        await caught_up(fake, 4)
        assert len(fake.called("prompt_async")) == 1
    assert [len(said(words)) for words in (": attached (", ": lost: ")] == [1, 1]


async def test_all_folders_of_a_server_are_told_apart(settings: Path, waits: Waits) -> None:
    def of(directory: str, raw: dict[str, Any]) -> list[dict[str, Any]]:
        twin = {"type": "sync", "syncEvent": {"type": f"{raw['type']}.1", "data": raw["properties"]}}
        return [in_folder(directory, raw), in_folder(directory, twin)]

    async with (
        FakeOpenCode() as fake,
        attached(settings, waits, fake, folders=Folders(everywhere=True)) as (server,),
    ):
        turns = [failing_turn(f"ses_{name}", f"{name}/m") for name in ("one", "two")]
        for one, two in zip(*turns, strict=True):
            await fake.send(*of("/one", one), *of("/two", two))
        for name in ("one", "two"):
            prompt = await fake.wait_for_call(f"/session/ses_{name}/prompt_async")
            assert prompt.directory == f"/{name}"
        assert len(fake.called("prompt_async")) == 2
        # The fake's idles at each abort name no folder, and so are nobody's.
        assert server.counts.events == 8


@pytest.mark.usefixtures("drop_in")
async def test_a_folder_that_is_disposed_of_runs_nothing(settings: Path, waits: Waits) -> None:
    async with FakeOpenCode() as fake, attached(settings, waits, fake, folders=Folders(everywhere=True)):
        await fake.send(in_folder("/one", status_is("ses_1", "busy")))
        await fake.wait_for(lambda: "status: ses_1 busy" in fake.toasts())
        await fake.send(in_folder("/one", event("server.instance.disposed", directory="/one")))
        await fake.wait_for(lambda: "idle: ses_1" in fake.toasts())


def in_folder(directory: str, raw: dict[str, Any]) -> dict[str, Any]:
    """Write an event as the stream of all folders has it."""
    return {"directory": directory, "project": "global", "payload": raw}


@pytest.mark.usefixtures("drop_in")
async def test_a_folder_that_was_quiet_for_long_is_let_go_of(settings: Path, waits: Waits) -> None:
    now = 0.0
    everywhere = Folders(everywhere=True)
    async with FakeOpenCode() as fake, attached(settings, waits, fake, folders=everywhere, clock=lambda: now):
        await fake.send(
            in_folder("/quiet", status_is("ses_1", "idle")), in_folder("/busy", status_is("ses_2", "busy"))
        )
        await fake.wait_for(lambda: len(fake.toasts()) == 2)
        now = QUIET_S + 1
        await fake.send(in_folder("/new", status_is("ses_3", "busy")))
        await fake.wait_for(lambda: len(fake.toasts()) == 4)

        assert set(fake.toasts()[2:]) == {"bye: /quiet", "status: ses_3 busy"}
        # It is taken up again like any other.
        await fake.send(in_folder("/quiet", status_is("ses_1", "busy")))
        await fake.wait_for(lambda: fake.toasts()[4:] == ["status: ses_1 busy"])


async def test_a_mistake_with_one_server_leaves_the_others(
    settings: Path, waits: Waits, said: Said, monkeypatch: pytest.MonkeyPatch
) -> None:
    def mistaken(_: object) -> NoReturn:
        raise ZeroDivisionError("a mistake")

    monkeypatch.setattr("fallback_plugin.attach.server.of_folder", mistaken)
    async with (
        FakeOpenCode() as fake,
        FakeOpenCode() as other,
        attached(settings, waits, fake, folders=Folders(everywhere=True)),
        attached(settings, waits, other),
    ):
        await fake.send(status_is("ses_1", "busy"))
        await until(lambda: bool(said("ZeroDivisionError: a mistake")))
        await other.send(*failing_turn("ses_1"))
        await other.wait_for_call("prompt_async")


async def test_trouble_with_one_folder_leaves_the_others(settings: Path, waits: Waits, said: Said) -> None:
    everywhere = Folders(everywhere=True)
    async with FakeOpenCode() as fake, attached(settings, waits, fake, folders=everywhere):
        fake.refused["/session/status"] = 500
        for raw in failing_turn("ses_1"):
            await fake.send(in_folder("/one", raw))
        await fake.wait_for_call("prompt_async")
        await until(lambda: bool(said("GET /session/status")))

    assert said(": lost: ") == []


async def test_settings_are_taken_anew(settings: Path, waits: Waits, said: Said) -> None:
    async with FakeOpenCode() as fake, attached(settings, waits, fake):
        await caught_up(fake)
        await anyio.Path(settings).write_text(SETTINGS.replace("spare/a", "spare/c"))
        await until(lambda: bool(said("settings changed")))
        await fake.send(*failing_turn("ses_1"))

        assert (await fake.wait_for_call("prompt_async")).body["model"]["modelID"] == "c"


@pytest.mark.parametrize("status", [400, 500])
async def test_a_config_the_server_refuses_is_done_without(settings: Path, waits: Waits, status: int) -> None:
    async with FakeOpenCode() as fake:
        fake.refused["/config"] = status
        async with attached(settings, waits, fake):
            await fake.send(*failing_turn("ses_1"))
            await fake.wait_for_call("prompt_async")


async def test_broken_settings_are_said_and_the_defaults_hold(settings: Path, waits: Waits) -> None:
    await anyio.Path(settings).write_text("[fallback\n")
    async with FakeOpenCode() as fake, attached(settings, waits, fake):
        shown = await fake.wait_for_call("/tui/show-toast")

        assert shown.body["title"] == "Fallback settings are wrong"
        assert "defaults are used" in shown.body["message"]


async def test_P20_a_server_of_opencode_2_is_left_alone_and_said_once(
    settings: Path, waits: Waits, said: Said
) -> None:
    async with FakeOpenCode(version="2.0.1") as fake, attached(settings, waits, fake) as (server,):
        await until(lambda: len(waits.asked_for) >= 3)

        assert set(fake.requests) == {"/global/health"}
        assert not server.counts.attached
        assert len(said("this is OpenCode 2.0.1, and attach speaks to OpenCode 1.x only")) == 1

        # Another version in its place is looked after.
        fake.version = "1.18.33"
        await until(lambda: server.counts.attached)
